"""Somebody who may write to an inbox swaps a folder or a file for a symbolic link, in the worst moment: at each step
in turn. Nothing that lies elsewhere is read, written, changed or moved.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.rooms.outputs_stage import Stage

from inboxd.core.settling import Pace, Quiet
from inboxd.rooms.listing import signature_of
from inboxd.rooms.looking import Copied, Errand, look
from inboxd.rooms.outputs import Archived
from inboxd.rooms.spool import Spool

STEPS = {"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.listdir", "os.scandir", "os.chmod", "os.chown"}
SECRET = b"%PDF-1.4 a secret\n%%EOF\n"
SCAN = b"%PDF-1.4 a scan\n%%EOF\n"
Swap = Callable[[], None]


class Moment:
    """When the swap comes: just before the n-th step that Python tells its audit hooks of."""

    def __init__(self) -> None:
        self._swap: Swap | None = None
        self._left = 0
        self.came = True  # the last one, before its block ended

    @contextmanager
    def at(self, step: int, swap: Swap) -> Iterator[None]:
        self._swap, self._left, self.came = swap, step, False
        try:
            yield
        finally:
            self._swap = None

    def hook(self, event: str, _: tuple[object, ...]) -> None:
        if self._swap is None or event not in STEPS:
            return
        self._left -= 1
        if self._left == 0:
            swap, self._swap, self.came = self._swap, None, True
            swap()


MOMENT = Moment()
sys.addaudithook(MOMENT.hook)  # for good: a hook can't be taken back


class Elsewhere:
    """A folder that is none of the daemon's business."""

    def __init__(self, base: Path) -> None:
        self.folder = base / "elsewhere"
        self.folder.mkdir()
        for name in ("scan.pdf", "scan.pdf.md", "scan.pdf.json"):
            (self.folder / name).write_bytes(SECRET)
            os.utime(self.folder / name, ns=(1, 1))
        self._before = self._state()

    def check(self) -> None:
        assert self._state() == self._before

    def _state(self) -> dict[str, tuple[int, int, int, int, bytes]]:
        state = {}
        for path in sorted(self.folder.iterdir()):
            status = path.lstat()
            state[path.name] = (
                status.st_mode,
                status.st_mtime_ns,
                status.st_ctime_ns,
                status.st_ino,
                path.read_bytes(),
            )
        return state


def rounds(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Fresh folders for a swap at the first, second … step, until one came too late."""
    for step in itertools.count(1):
        base = tmp_path / str(step)
        base.mkdir()
        yield step, base
        if not MOMENT.came:
            assert step > 3, "nothing was swapped at all"
            return


def folder_for_link(folder: Path, target: Path) -> Swap:
    def swap() -> None:
        if folder.exists():
            folder.rename(folder.with_name("moved away"))
        folder.parent.mkdir(exist_ok=True)
        folder.symlink_to(target)

    return swap


def file_for_link(path: Path, target: Path) -> Swap:
    def swap() -> None:
        link = path.with_name("link on its way")
        link.symlink_to(target)
        link.rename(path)

    return swap


@pytest.mark.parametrize("what", ["folder", "scan.pdf", "scan.pdf.md", "scan.pdf.json"])
@pytest.mark.parametrize("again", [False, True], ids=["first", "over our own"])
def test_outputs_land_nowhere_else(tmp_path: Path, what: str, again: bool) -> None:
    for step, base in rounds(tmp_path):
        stage = Stage(base, b"sub/scan.pdf").drop(SCAN)
        if again:
            stage.deliver("Old.")
        elsewhere = Elsewhere(base)
        folder = stage.box / "sub"
        if what == "folder":
            swap = folder_for_link(folder, elsewhere.folder)
        else:
            swap = file_for_link(folder / what, elsewhere.folder / what)
        with MOMENT.at(step, swap):
            stage.deliver("New.")
        elsewhere.check()


@pytest.mark.parametrize("what", ["a folder of the output folder", "the pattern for it"])
def test_outputs_in_a_folder_of_their_own_land_nowhere_else(tmp_path: Path, what: str) -> None:
    for step, base in rounds(tmp_path):
        out = base / "out"
        out.mkdir()
        stage = Stage(base, b"sub/scan.pdf", output_dir=str(out)).drop(SCAN)
        elsewhere = Elsewhere(base)
        folder = out / "sub" if what == "a folder of the output folder" else stage.box / "sub"
        with MOMENT.at(step, folder_for_link(folder, elsewhere.folder)):
            stage.deliver()
        elsewhere.check()


@pytest.mark.parametrize("what", ["original", "its folder", "the archive's folder", "its name in the archive"])
def test_an_original_is_archived_from_here_and_nowhere_else(tmp_path: Path, what: str) -> None:
    for step, base in rounds(tmp_path):
        archive = base / "archive"
        archive.mkdir()
        stage = Stage(base, b"sub/scan.pdf", after="archive", archive_dir=str(archive)).drop(SCAN)
        elsewhere = Elsewhere(base)
        swap = {
            "original": file_for_link(stage.original, elsewhere.folder / "scan.pdf"),
            "its folder": folder_for_link(stage.original.parent, elsewhere.folder),
            "the archive's folder": folder_for_link(archive / "sub", elsewhere.folder),
            "its name in the archive": in_new_folder(archive / "sub" / "scan.pdf", elsewhere.folder / "scan.pdf"),
        }[what]
        with MOMENT.at(step, swap):
            outcome = stage.archive()
        elsewhere.check()
        copies = [path for path in base.rglob("*") if path.is_file() and not path.is_symlink()]
        assert any(path.read_bytes() == SCAN for path in copies) or what == "original"
        if isinstance(outcome, Archived) and what == "original":
            assert Path(os.fsdecode(outcome.path)).read_bytes() == SCAN


def in_new_folder(path: Path, target: Path) -> Swap:
    def swap() -> None:
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.symlink_to(target)

    return swap


@pytest.mark.parametrize("what", ["file", "folder", "folder above"])
def test_only_what_lies_in_the_inbox_is_read(tmp_path: Path, what: str) -> None:
    taken = 0
    for step, base in rounds(tmp_path):
        inbox = base / "inbox"
        (inbox / "top" / "sub").mkdir(parents=True)
        file = inbox / "top" / "sub" / "scan.pdf"
        file.write_bytes(SCAN)
        elsewhere = Elsewhere(base)
        (elsewhere.folder.parent / "above").mkdir()
        (elsewhere.folder.parent / "above" / "sub").symlink_to(elsewhere.folder)
        spool = Spool(base / "spool")
        quiet = Quiet(signature_of(file.lstat(), keeps_inodes=True), time.monotonic() - 10)
        errand = Errand(os.fsencode(inbox), b"top/sub/scan.pdf", quiet, Pace(0, 0), 10**9, 0)
        swap = {
            "file": file_for_link(file, elsewhere.folder / "scan.pdf"),
            "folder": folder_for_link(file.parent, elsewhere.folder),
            "folder above": folder_for_link(inbox / "top", elsewhere.folder.parent / "above"),
        }[what]
        with MOMENT.at(step, swap):
            outcome = look(errand, spool, lambda: False)
        if isinstance(outcome, Copied):
            taken += 1
            assert outcome.sha256 == hashlib.sha256(SCAN).hexdigest()
        assert not spool.holds(hashlib.sha256(SECRET).hexdigest(), len(SECRET))
        elsewhere.check()
    assert taken, "it was never taken, not even when the swap came too late"


def test_no_path_climbs_out_of_an_inbox(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    elsewhere = Elsewhere(tmp_path)
    quiet = Quiet(signature_of((elsewhere.folder / "scan.pdf").lstat(), keeps_inodes=True), 0)
    for path in (b"../elsewhere/scan.pdf", b"./../elsewhere/scan.pdf"):
        spool = Spool(tmp_path / "spool")
        outcome = look(Errand(os.fsencode(inbox), path, quiet, Pace(0, 0), 10**9, 0), spool, lambda: False)
        assert not isinstance(outcome, Copied)
        assert spool.copies() == set()
