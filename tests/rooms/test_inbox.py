"""Folders that come and go, shares that hang, daemons that meet: what the inbox room makes of them."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.rooms.intake_stage import Stage
from tests.rooms.test_intake import PDF, distinct, on

from inboxd.config import Inbox
from inboxd.core.ignoring import Filter
from inboxd.model import InboxId
from inboxd.rooms import mounts, scanning, tending
from inboxd.rooms.folders import Folder
from inboxd.rooms.inbox import Watched
from inboxd.rooms.marker import CHALLENGE, MARKER, Claim, NotOurs, myself
from inboxd.rooms.watching import Watcher


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders in trouble are looked at often."""
    monkeypatch.setattr("inboxd.core.agenda.FIRST_BACKOFF", 0.1)
    monkeypatch.setattr("inboxd.core.agenda.LONGEST_BACKOFF", 0.1)


def state(stage: Stage, number: int = 0) -> tuple[str, str]:
    row = stage.reader.inboxes()[number]
    return row.state, row.reason


async def becomes(stage: Stage, wanted: str, number: int = 0) -> None:
    await stage.until(lambda: state(stage, number)[0] == wanted, f"inbox {number} to be {wanted}")


async def says(stage: Stage, reason: str) -> None:
    """Wait for the reason why it is unavailable; where two renames stand for a mount, there is another for a moment."""
    await stage.until(lambda: state(stage)[0] == "unavailable" and state(stage)[1].startswith(reason), reason)


# ---------------------------------------------------------------- folders that come and go


@pytest.mark.usefixtures("impatient")
def test_an_inbox_that_is_not_there_is_awaited_and_others_go_on(stage: Stage) -> None:
    other = stage.home / "other"
    stage.folders.append(other)

    async def play(stage: Stage) -> None:
        await becomes(stage, "unavailable", 1)
        assert state(stage, 1)[1] == "the folder does not exist"
        assert stage.inboxes.unavailable() == [f"{other}: the folder does not exist"]
        (stage.inbox / "a.pdf").write_bytes(distinct(1))
        await stage.becomes("a.pdf", "ready")
        other.mkdir()
        (other / "b.pdf").write_bytes(distinct(2))
        await stage.becomes("b.pdf", "ready")
        await becomes(stage, "watching", 1)

    on(stage, play)


@pytest.mark.usefixtures("impatient")
def test_an_inbox_that_goes_and_comes_back_loses_nothing(stage: Stage) -> None:
    away = stage.home / "away"

    async def play(stage: Stage) -> None:
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.becomes("a.pdf", "ready")
        stage.inbox.rename(away)
        await becomes(stage, "unavailable")
        (away / "b.pdf").write_bytes(distinct(2))
        away.rename(stage.inbox)
        await stage.becomes("b.pdf", "ready")
        assert stage.state("a.pdf") == "ready"
        await becomes(stage, "watching")
        (stage.inbox / "c.pdf").write_bytes(distinct(3))  # the watch is armed again
        await stage.becomes("c.pdf", "ready")

    on(stage, play)


@pytest.mark.usefixtures("impatient")
def test_trouble_is_logged_once_until_it_changes(stage: Stage) -> None:
    away = stage.home / "away"

    async def play(stage: Stage) -> None:
        stage.inbox.rename(away)
        await becomes(stage, "unavailable")
        looks = stage.inboxes.scans_everywhere()
        await stage.until(lambda: stage.inboxes.scans_everywhere() > looks + 5, "some more tries")
        away.rename(stage.inbox)
        await becomes(stage, "watching")

    with capture_logs() as logs:
        on(stage, play)
    told = [line for line in logs if line["event"].startswith("inbox ")]
    assert [line["event"] for line in told] == ["inbox is unavailable", "inbox can be read again"]


@pytest.mark.usefixtures("impatient")
def test_a_folder_made_anew_in_the_same_place_is_the_inbox_again(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.becomes("a.pdf", "ready")
        stage.inbox.rename(stage.home / "gone")  # at once: emptied bit by bit, it would be marked again meanwhile
        shutil.rmtree(stage.home / "gone")
        await becomes(stage, "unavailable")
        stage.inbox.mkdir()
        (stage.inbox / "b.pdf").write_bytes(distinct(2))
        await stage.becomes("b.pdf", "ready")
        await stage.becomes("a.pdf", "vanished")
        assert (stage.inbox / os.fsdecode(MARKER)).exists()

    on(stage, play)


# ---------------------------------------------------------------- mounts

MOUNTED = "1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 0:40 / {inbox} rw - {fstype} //nas/scans rw\n"


class Share:
    """Stands in for a share that is mounted on the inbox, and can be gone."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch, fstype: str = "cifs") -> None:
        self._inbox = stage.inbox
        self._away = stage.home / "share"
        self._bare = stage.home / "bare"
        self._bare.mkdir()
        table = stage.home / "mountinfo"
        table.write_text(MOUNTED.format(inbox=stage.inbox, fstype=fstype))
        share = stage.inbox.stat().st_ino
        monkeypatch.setattr(mounts, "MOUNTINFO", table)
        monkeypatch.setattr(mounts, "mount_id", lambda fd: 2 if os.fstat(fd).st_ino == share else 1)

    def unmount(self) -> None:
        self._inbox.rename(self._away)
        self._bare.rename(self._inbox)

    def mount(self) -> None:
        self._inbox.rename(self._bare)
        self._away.rename(self._inbox)


@pytest.mark.usefixtures("impatient")
def test_a_bare_mount_point_is_not_an_emptied_inbox(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    share = Share(stage, monkeypatch)

    async def play(stage: Stage) -> None:
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.becomes("a.pdf", "ready")
        share.unmount()
        await says(stage, "its marker is missing: is it mounted?")
        assert os.listdir(stage.inbox) == []
        looks = stage.inboxes.scans_everywhere()
        await stage.until(lambda: stage.inboxes.scans_everywhere() > looks + 3, "some more tries")
        assert stage.state("a.pdf") == "ready"
        share.mount()
        (stage.inbox / "b.pdf").write_bytes(distinct(2))
        await stage.becomes("b.pdf", "ready")
        assert stage.state("a.pdf") == "ready"

    on(stage, play)


@pytest.mark.usefixtures("impatient")
def test_nor_is_it_at_the_next_start(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    share = Share(stage, monkeypatch)

    async def first(stage: Stage) -> None:
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.becomes("a.pdf", "ready")
        await stage.scanned()

    async def second(stage: Stage) -> None:
        await becomes(stage, "unavailable")
        assert stage.state("a.pdf") == "ready"
        consent = state(stage)[1].split("truncate -s 0 ")[1].strip("')")
        Path(consent).touch()
        await becomes(stage, "watching")
        await stage.becomes("a.pdf", "vanished")

    on(stage, first)
    share.unmount()
    on(stage, second)


@pytest.mark.usefixtures("impatient")
def test_a_daemon_that_starts_before_the_share_is_mounted_for_the_first_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = Share(stage, monkeypatch)
    share.unmount()

    async def play(stage: Stage) -> None:
        await becomes(stage, "watching")
        share.mount()
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.becomes("a.pdf", "ready")
        await stage.scanned()
        share.unmount()
        # What lies below the share has a marker of ours by now, too.
        assert (stage.inbox / os.fsdecode(MARKER)).exists()
        await says(stage, "it has an old marker: is it mounted?")
        assert stage.state("a.pdf") == "ready"

    on(stage, play)


def test_a_share_is_polled_and_says_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    Share(stage, monkeypatch, "fuse.bindfs")
    monkeypatch.setattr(Watcher, "watch", lambda *_: pytest.fail("a share must not be watched"))

    async def play(stage: Stage) -> None:
        await stage.until(lambda: stage.reader.inboxes()[0].watching, "it to be told")
        assert stage.reader.inboxes()[0].watching == (
            "polling every 0.5 s (fuse.bindfs: changes made elsewhere give no events)"
        )
        (stage.inbox / "sub").mkdir()
        for number in range(3):
            (stage.inbox / "sub" / f"{number}.pdf").write_bytes(distinct(number))
            await stage.becomes(f"{number}.pdf", "ready")
        (stage.inbox / "sub" / "1.pdf").write_bytes(distinct(7))
        await stage.until(lambda: len(stage.files(all_versions=True)) == 4, "the change")
        known = stage.reader.known(stage.ids[0], b"sub")
        assert {row.signature.inode for row in known.values()} == {0}

    on(stage, play)


def test_a_mount_inside_an_inbox_that_is_gone_says_nothing_about_its_files(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    sub = stage.inbox / "sub"
    sub.mkdir()
    (sub / "a.pdf").write_bytes(PDF)
    real = Folder.own_status
    is_mounted = [True]

    def own_status(folder: Folder) -> os.stat_result:
        found = real(folder)
        if folder.path.endswith(b"/sub") and is_mounted[0]:
            return os.stat_result((*found[:2], 4711, *found[3:]))
        return found

    monkeypatch.setattr(Folder, "own_status", own_status)

    async def play(stage: Stage) -> None:
        await stage.becomes("a.pdf", "ready")
        (sub / "a.pdf").rename(stage.home / "a.pdf")
        is_mounted[0] = False
        await stage.scanned()
        await stage.scanned()
        assert stage.state("a.pdf") == "ready"
        (stage.home / "a.pdf").rename(sub / "a.pdf")
        is_mounted[0] = True
        await stage.settled()
        assert stage.state("a.pdf") == "ready"
        (sub / "a.pdf").unlink()
        await stage.becomes("a.pdf", "vanished")

    on(stage, play)


# ---------------------------------------------------------------- folders that can't be read


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("code", [errno.ENOTCONN, errno.EHOSTDOWN, errno.ESTALE, errno.EIO, errno.EACCES, errno.ENODEV])
def test_a_share_in_trouble_keeps_its_rows_and_recovers(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    real = scanning.list_folder
    trouble = [False]

    def list_folder(*args: Any, **options: Any) -> Any:
        if trouble[0]:
            raise OSError(code, os.strerror(code))
        return real(*args, **options)

    monkeypatch.setattr(scanning, "list_folder", list_folder)

    async def play(stage: Stage) -> None:
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.becomes("a.pdf", "ready")
        trouble[0] = True
        stage.inboxes.rescan(None)
        await becomes(stage, "unavailable")
        assert state(stage)[1] == tending.WORDS.get(code, os.strerror(code))
        (stage.inbox / "a.pdf").unlink()
        (stage.inbox / "b.pdf").write_bytes(distinct(2))
        assert stage.state("a.pdf") == "ready"
        trouble[0] = False
        await stage.becomes("b.pdf", "ready")
        await stage.becomes("a.pdf", "vanished")

    on(stage, play)


def test_one_folder_that_can_t_be_read_does_not_hide_the_others(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    real = scanning.list_folder
    trouble = [False]

    def list_folder(opened: Folder, below: bytes, *args: Any, **options: Any) -> Any:
        if trouble[0] and below == b"locked":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(opened, below, *args, **options)

    monkeypatch.setattr(scanning, "list_folder", list_folder)
    for name in ("locked", "open"):
        (stage.inbox / name).mkdir()
        (stage.inbox / name / f"{name}.pdf").write_bytes(name.encode() + PDF)

    async def play(stage: Stage) -> None:
        await stage.becomes("locked.pdf", "ready")
        await stage.becomes("open.pdf", "ready")
        trouble[0] = True
        for name in ("locked", "open"):
            (stage.inbox / name / f"{name}.pdf").unlink()
        await stage.scanned()
        await stage.becomes("open.pdf", "vanished")
        assert stage.state("locked.pdf") == "ready"
        assert state(stage)[0] == "watching"
        trouble[0] = False
        await stage.scanned()
        await stage.becomes("locked.pdf", "vanished")

    with capture_logs() as logs:
        on(stage, play)
    told = [line["event"] for line in logs if line["event"].startswith("folder")]
    assert told == ["folder can't be seen", "folder can be seen again"]


def test_a_share_that_hangs_is_unavailable_and_holds_nobody_up(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    other = stage.home / "other"
    other.mkdir()
    stage.folders.append(other)
    stage.patience = 0.3
    real = scanning.list_folder
    hangs, let_go = threading.Event(), threading.Event()

    def list_folder(opened: Folder, *args: Any, **options: Any) -> Any:
        if hangs.is_set() and opened.path == os.fsencode(other):
            let_go.wait()
        return real(opened, *args, **options)

    monkeypatch.setattr(scanning, "list_folder", list_folder)

    async def play(stage: Stage) -> None:
        hangs.set()
        looks = stage.inboxes.scans_everywhere()
        stage.inboxes.rescan(None)
        await becomes(stage, "unavailable", 1)
        assert state(stage, 1)[1] == "no answer for 0.3 s"
        (stage.inbox / "a.pdf").write_bytes(distinct(1))
        (other / "b.pdf").write_bytes(distinct(2))
        await stage.becomes("a.pdf", "ready")
        assert "b.pdf" not in stage.rows()
        await stage.until(lambda: stage.inboxes.scans_everywhere() > looks, "the try to count")
        let_go.set()
        await stage.becomes("b.pdf", "ready")
        await becomes(stage, "watching", 1)
        let_go.clear()
        stage.inboxes.rescan(None)
        await becomes(stage, "unavailable", 1)
        # The life ends here all the same.

    try:
        on(stage, play)
    finally:
        let_go.set()


def test_a_defect_in_a_scan_ends_the_room(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a defect")

    async def play(stage: Stage) -> None:
        monkeypatch.setattr(scanning, "list_folder", broken)
        stage.inboxes.rescan(None)
        await asyncio.Event().wait()

    with pytest.raises(BaseExceptionGroup) as caught:
        on(stage, play)
    assert caught.group_contains(ZeroDivisionError, match="a defect")


# ---------------------------------------------------------------- events


def test_where_inotify_s_limit_is_reached_folders_are_polled(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Watcher.watch

    def watch(watcher: Watcher, folder: bytes, fd: int) -> None:
        if folder:
            raise OSError(errno.ENOSPC, "inotify watch limit reached")
        real(watcher, folder, fd)

    monkeypatch.setattr(Watcher, "watch", watch)

    async def play(stage: Stage) -> None:
        for number in range(5):
            (stage.inbox / str(number)).mkdir()
            (stage.inbox / str(number) / f"{number}.pdf").write_bytes(distinct(number))
        for number in range(5):
            await stage.becomes(f"{number}.pdf", "ready")
        (stage.inbox / "3" / "late.pdf").write_bytes(distinct(9))
        await stage.becomes("late.pdf", "ready")
        await stage.until(lambda: "polling" in stage.reader.inboxes()[0].watching, "it to be told")
        assert "sysctl fs.inotify.max_user_watches=" in stage.reader.inboxes()[0].watching

    on(stage, play)


def test_without_an_inotify_instance_everything_is_polled(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Watcher:
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    monkeypatch.setattr(tending, "Watcher", refuse)

    async def play(stage: Stage) -> None:
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.becomes("a.pdf", "ready")
        await stage.until(lambda: "max_user_instances" in stage.reader.inboxes()[0].watching, "it to be told")

    on(stage, play)


def test_a_watcher_that_died_is_replaced(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        (tender,) = (kept.tender for kept in stage.inboxes._inboxes.values())
        assert tender is not None and tender._watcher is not None
        tender._watcher.close()
        await stage.scanned()
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.becomes("a.pdf", "ready")

    on(stage, play)


class Ear:
    """Hears which folders a watcher tells of, below a folder with subfolders a and b."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.told: list[bytes] = []
        self.lost = 0
        self._bells = 0
        self._news = threading.Condition()
        self.watcher = Watcher(Filter(), self._hear, self._lose)
        for name in ("", "a", "b"):
            (root / name).mkdir(exist_ok=True)
            with Folder.open(os.fsencode(root / name)) as folder:
                self.watcher.watch(name.encode(), folder.fd)

    def _hear(self, folder: bytes) -> None:
        with self._news:
            self.told.append(folder)
            self._news.notify_all()

    def _lose(self) -> None:
        self.lost += 1

    def hears_of_a(self, happening: Callable[[Path], object]) -> bool:
        """Whether what happens in a is an event; one in b tells that it would have been heard by then."""
        self._ring()
        self.told.clear()
        happening(self.root / "a")
        self._ring()
        return b"a" in self.told

    def _ring(self) -> None:
        self._bells += 1
        told = self.told.count(b"b")
        (self.root / "b" / f"bell{self._bells}").mkdir()
        with self._news:
            assert self._news.wait_for(lambda: self.told.count(b"b") > told, 60)


@pytest.fixture
def ear(tmp_path: Path) -> Any:
    ear = Ear(tmp_path)
    yield ear
    ear.watcher.close()
    ear.watcher.close()
    assert not ear.watcher.is_alive


def test_reading_and_listing_are_no_events(ear: Ear) -> None:
    (ear.root / "a" / "x.pdf").write_bytes(PDF)

    def read(folder: Path) -> None:
        for _ in range(3):
            (folder / "x.pdf").read_bytes()
            os.listdir(folder)

    assert not ear.hears_of_a(read)


def test_ignored_names_and_our_own_outputs_are_no_events(ear: Ear) -> None:
    def write(folder: Path) -> None:
        (folder / "x.pdf.part").write_bytes(PDF)
        (folder / "x.pdf.part").unlink()
        (folder / "@eaDir").mkdir()
        (folder / ".inboxd-0123456789abcdef.tmp").write_text("output")
        (folder / ".inboxd-0123456789abcdef.tmp").rename(folder / "x.pdf.md")

    assert not ear.hears_of_a(write)


@pytest.mark.parametrize(
    "happening",
    [
        lambda folder: (folder / "new.pdf").touch(),
        lambda folder: (folder / "x.pdf").unlink(),
        lambda folder: (folder / "x.pdf").chmod(0o600),
        lambda folder: (folder / "x.pdf").rename(folder / "y.pdf"),
        lambda folder: (folder / ".tmp").rename(folder / "z.pdf"),
        lambda folder: (folder / "sub").mkdir(),
        lambda folder: folder.rename(folder.parent / "c"),
    ],
    ids=["create", "delete", "chmod", "rename", "rename from hidden", "mkdir", "move the folder"],
)
def test_what_may_matter_is_an_event(ear: Ear, happening: Callable[[Path], object]) -> None:
    (ear.root / "a" / "x.pdf").write_bytes(PDF)
    (ear.root / "a" / ".tmp").write_bytes(PDF)
    assert ear.hears_of_a(happening)


def test_lost_events_call_for_a_scan(ear: Ear) -> None:
    ear.watcher.on_queue_overflow()
    assert ear.lost == 1


# ---------------------------------------------------------------- daemons that meet


def claim(instance: str, *, kernel: str = "", inbox: int = 1, looks: float = 0.0, memory: str = "") -> Claim:

    me = myself(instance, Path(f"/var/lib/{instance}.sqlite"), inbox, looks)
    return Claim(replace(me, kernel=kernel) if kernel else me, frozenset({1, 2}), memory)


@pytest.fixture
def root(tmp_path: Path) -> Any:
    with Folder.open(os.fsencode(tmp_path)) as folder:
        yield folder


def test_a_second_daemon_on_this_machine_sees_who_is_there_and_refuses(root: Folder) -> None:
    first = claim("first")
    first.check(root, "place")
    with pytest.raises(
        NotOurs, match=rf"the inboxd on .* with the ledger /var/lib/first.sqlite \(process {os.getpid()}\)"
    ):
        claim("second").check(root, "place")
    first.check(root, "place")


def test_one_whose_process_is_gone_is_succeeded(root: Folder) -> None:
    claim("first").check(root, "place")
    marker = Path(os.fsdecode(root.at(MARKER)))
    marker.write_text(json.dumps({**json.loads(marker.read_text()), "started": "12345"}))
    claim("second").check(root, "place")
    assert json.loads(marker.read_text())["instance"] == "second"


def test_one_on_another_machine_is_asked_and_answers(root: Folder) -> None:
    here, there = claim("here"), claim("there", kernel="another", looks=0.0)
    there.check(root, "place")
    with pytest.raises(NotOurs):
        here.check(root, "place")
    assert root.status(CHALLENGE) is not None
    there.check(root, "place")
    assert root.status(CHALLENGE) is None
    for _ in range(3):
        with pytest.raises(NotOurs):
            here.check(root, "place")
        there.check(root, "place")


def test_one_on_another_machine_that_does_not_answer_is_succeeded(
    root: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = claim("here")
    claim("there", kernel="another", looks=10.0).check(root, "place")
    with pytest.raises(NotOurs):
        here.check(root, "place")
    now = [0.0]
    monkeypatch.setattr("inboxd.rooms.marker.time.monotonic", lambda: now[0])
    now[0] = 1e9
    here.check(root, "place")
    assert root.status(CHALLENGE) is None
    here.check(root, "place")


def test_two_inboxes_of_one_configuration_must_not_be_one_folder(root: Folder) -> None:
    claim("me", inbox=1).check(root, "place")
    with pytest.raises(NotOurs, match="same folder as another inbox"):
        claim("me", inbox=2).check(root, "place")


def test_an_inbox_that_was_moved_in_the_configuration_keeps_its_marker(root: Folder) -> None:
    claim("me", inbox=7).check(root, "place")
    claim("me", inbox=1).check(root, "place")


def test_a_marker_that_is_a_link_is_not_followed(root: Folder, tmp_path: Path) -> None:
    Path(os.fsdecode(root.at(MARKER))).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotOurs, match="is no plain file"):
        claim("me").check(root, "place")
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_only_read_is_known_by_its_place(root: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def open_(name: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "Read-only file system")
        return real(name, flags, *rest, **options)

    monkeypatch.setattr(os, "open", open_)
    mine = claim("me")
    mine.check(root, "cifs /mnt/scans")
    mine.remember()
    again = claim("me", memory=mine.memory)
    again.check(root, "cifs /mnt/scans")
    with pytest.raises(NotOurs, match="marker is missing"):
        again.check(root, "254:0 /")


def test_after_a_change_of_place_the_marker_is_what_counts(root: Folder) -> None:
    mine = claim("me")
    mine.check(root, "254:0 /")
    mine.remember()
    again = claim("me", memory=mine.memory)
    again.check(root, "8:17 /srv")
    again.remember()
    assert again.memory.endswith("8:17 /srv")


def test_however_a_path_is_written_it_is_one_inbox() -> None:
    watched = Watched(InboxId(1), Inbox(path="/srv//scans/"))
    assert watched.path == b"/srv/scans"
