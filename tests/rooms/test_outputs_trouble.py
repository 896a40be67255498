"""Folders that are full, read-only, forbidden or away: the result waits, nothing half-written stays, and it heals."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.rooms.outputs_stage import Stage

from inboxd.core.trouble import KEPT, cannot_write, is_full
from inboxd.rooms.outputs import Undeliverable

BOTH = {"scan.pdf.md", "scan.pdf.json"}
NOBODY = 65534
GROUP = 23456


@pytest.fixture
def commoner() -> Iterator[Path]:
    """A folder of an ordinary user, who runs the test: root may do everything."""
    base = Path(tempfile.mkdtemp(prefix="inboxd-test-"))
    root = os.geteuid() == 0
    if root:
        groups = os.getgroups()
        os.chown(base, NOBODY, NOBODY)
        os.setgroups([])
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    yield base
    if root:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
    subprocess.run(["chmod", "-R", "u+rwX", base], check=True)
    shutil.rmtree(base)


@pytest.fixture
def mount() -> Iterator[Callable[[Path, str], None]]:
    """Mounts a small filesystem in memory over a folder; a second call for it changes its options."""
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("mounting a filesystem takes root and mount(8)")
    mounted: list[Path] = []

    def over(folder: Path, options: str) -> None:
        remount = ["-o", "remount"] if folder in mounted else ["-t", "tmpfs"]
        done = subprocess.run(["mount", *remount, "-o", options, "tmpfs", folder], capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"no filesystem can be mounted here: {done.stderr.decode().strip()}")
        mounted.append(folder)

    yield over
    for folder in set(mounted):
        subprocess.run(["umount", "-l", folder], capture_output=True, check=False)


def refused(stage: Stage, text: str = "What it says.") -> Undeliverable:
    outcome = stage.deliver(text)
    assert isinstance(outcome, Undeliverable)
    assert outcome.reason.endswith(KEPT)
    return outcome


def test_a_folder_that_may_not_be_written_is_told_and_tried_again(commoner: Path) -> None:
    stage = Stage(commoner).drop()
    stage.box.chmod(0o555)
    outcome = refused(stage)
    assert outcome.errno == errno.EACCES
    assert f"no permission to write in {stage.box} (inboxd is user {os.geteuid()}, " in outcome.reason
    assert "with mode 555" in outcome.reason
    assert stage.names() == set()
    stage.box.chmod(0o755)
    assert isinstance(stage.deliver(), tuple)
    assert stage.names() == BOTH


def test_a_file_that_may_not_be_read_is_not_ours(commoner: Path) -> None:
    stage = Stage(commoner).drop()
    stage.deliver()
    (stage.box / "scan.pdf.md").chmod(0)
    stage.deliver("New.")
    assert stage.names() == BOTH | {"scan.pdf.2.md"}


@pytest.mark.skipif(os.geteuid() != 0, reason="takes a group that the user is not in")
def test_a_group_that_may_not_be_given_is_told_once_and_does_no_harm(commoner: Path) -> None:
    stage = Stage(commoner).drop()
    as_root(lambda: os.chown(stage.original, 0, GROUP))
    as_root(lambda: stage.original.chmod(0o640))
    as_root(stage.note)
    with capture_logs() as logs:
        assert isinstance(stage.deliver("One."), tuple)
        assert isinstance(stage.deliver("Two."), tuple)
    assert [entry["event"] for entry in logs] == ["outputs can't have their original's group and mode here"]
    assert {stat.S_IMODE((stage.box / name).stat().st_mode) for name in BOTH} == {0o640}


@pytest.mark.skipif(os.geteuid() != 0, reason="takes a group that the user is not in")
def test_a_folder_that_hands_its_group_down_does_so_to_outputs(commoner: Path) -> None:
    stage = Stage(commoner)
    as_root(lambda: os.chown(stage.box, NOBODY, GROUP))
    as_root(lambda: stage.box.chmod(0o2775))
    stage.drop()
    stage.original.chmod(0o664)
    umask = os.umask(0o027)
    try:
        assert isinstance(stage.deliver(), tuple)
    finally:
        os.umask(umask)
    for name in BOTH:
        status = (stage.box / name).stat()
        assert (status.st_gid, stat.S_IMODE(status.st_mode)) == (GROUP, 0o664)


def as_root(act: Callable[[], Any]) -> None:
    os.seteuid(0)
    act()
    os.seteuid(NOBODY)


def test_a_full_disk_leaves_nothing_half_written_and_heals(tmp_path: Path, mount: Callable[[Path, str], None]) -> None:
    stage = Stage(tmp_path)
    mount(stage.box, "size=64k")
    stage.drop()
    outcome = refused(stage, "word " * 20_000)
    assert is_full(outcome.errno)
    assert f"is left in {stage.box}: free some" in outcome.reason
    assert stage.names() == set()
    mount(stage.box, "size=4m")
    assert isinstance(stage.deliver("word " * 20_000), tuple)
    assert stage.names() == BOTH


def test_a_disk_without_inodes_is_a_full_disk(tmp_path: Path, mount: Callable[[Path, str], None]) -> None:
    stage = Stage(tmp_path)
    mount(stage.box, "size=4m,nr_inodes=3")
    stage.drop()
    assert is_full(refused(stage).errno)
    assert stage.names() == set()


def test_a_disk_that_turns_read_only_is_told_and_heals(tmp_path: Path, mount: Callable[[Path, str], None]) -> None:
    stage = Stage(tmp_path)
    mount(stage.box, "size=1m")
    stage.drop()
    mount(stage.box, "ro")
    outcome = refused(stage)
    assert outcome.errno == errno.EROFS
    assert f"{stage.box} is read-only" in outcome.reason
    mount(stage.box, "rw")
    assert isinstance(stage.deliver(), tuple)


@pytest.mark.parametrize("call", ["write", "fsync", "close", "open", "rename"])
@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ESTALE, errno.EBUSY, errno.ENOTCONN])
def test_whatever_call_fails_no_half_file_stands_and_a_repeat_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, nth: int, number: int
) -> None:
    stage = Stage(tmp_path).drop()
    stage.deliver("Old.")
    real = getattr(os, call)
    calls = 0

    def failing(first: Any, *rest: Any, **more: Any) -> Any:
        nonlocal calls
        ours = call != "open" or rest[0] & os.O_EXCL
        calls += bool(ours)
        if ours and calls == nth:
            if call == "close":  # Linux closes even where it reports a failure
                real(first)
            raise OSError(number, os.strerror(number))
        return real(first, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        outcome = stage.deliver("New.")
    met = calls >= nth
    assert isinstance(outcome, Undeliverable) or not met or call == "close"
    assert stage.names() == BOTH
    assert stage.text("scan.pdf.md") in {"Old.\n", "New.\n"}
    assert isinstance(stage.deliver("New."), tuple)
    assert stage.names() == BOTH
    assert stage.text("scan.pdf.md") == "New.\n"
    assert stage.original.read_bytes() == b"%PDF a scan"


def test_an_output_folder_mirrors_the_inbox(tmp_path: Path) -> None:
    stage = Stage(tmp_path, b"2024/m\xe4rz/scan.pdf", output_dir=str(tmp_path / "out")).drop()
    (stage.box / "2024").chmod(0o2750)
    assert isinstance(stage.deliver(), tuple)
    assert stage.names() == set()
    assert stage.names(tmp_path / "out" / "2024" / "m\udce4rz") == BOTH
    assert stat.S_IMODE((tmp_path / "out" / "2024").stat().st_mode) == 0o2750
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == stat.S_IMODE(stage.box.stat().st_mode)


def test_a_link_in_the_output_folder_is_not_followed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, b"sub/scan.pdf", output_dir=str(tmp_path / "out")).drop()
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "sub").symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in refused(stage).reason
    assert os.listdir(tmp_path / "elsewhere") == []


def test_no_output_folder_is_made_where_a_share_should_be(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    stage = Stage(tmp_path, output_dir=str(tmp_path / "share" / "out")).drop()
    assert "is not there: create or mount it" in refused(stage).reason
    assert os.listdir(tmp_path / "share") == []
    (tmp_path / "share" / "out").mkdir()
    assert isinstance(stage.deliver(), tuple)


def test_nothing_is_written_into_a_bare_mount_point(tmp_path: Path, mount: Callable[[Path, str], None]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stage = Stage(tmp_path, output_dir=str(out)).drop()
    mount(out, "size=1m")
    stage.deliver("Old.")
    subprocess.run(["umount", out], check=True)
    assert refused(stage, "New.").errno == errno.ENODEV
    assert os.listdir(out) == []


def test_a_share_that_only_links_and_then_goes_away(tmp_path: Path) -> None:
    """bindfs stands for a network mount: it has no renameat2, and killed it answers ENOTCONN."""
    if shutil.which("bindfs") is None or shutil.which("fusermount") is None:
        pytest.skip("takes bindfs")
    (tmp_path / "server").mkdir()
    share = tmp_path / "inbox"
    share.mkdir()
    command = ["bindfs", "-f", "--no-allow-other", tmp_path / "server", share]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as server:
        try:
            while server.poll() is None and not share.is_mount():
                time.sleep(0.01)
            if server.returncode is not None:
                pytest.skip("bindfs can't mount here")
            stage = Stage(tmp_path).drop()
            assert isinstance(stage.deliver("Old."), tuple)
            assert isinstance(stage.deliver("New."), tuple)
            assert stage.names() == BOTH
            assert stage.text("scan.pdf.md") == "New.\n"
            server.kill()
            server.wait()
            outcome = refused(stage)
            assert outcome.errno == errno.ENOTCONN
            assert f"{share} cannot be reached (ENOTCONN)" in outcome.reason
        finally:
            server.kill()
            subprocess.run(["fusermount", "-u", "-z", share], capture_output=True, check=False)


@pytest.mark.parametrize("number", [*errno.errorcode, 0, 4095])
def test_every_error_has_words_for_a_person(number: int) -> None:
    said = cannot_write(number, "/srv/in", "inboxd is user 998")
    assert "/srv/in" in said
    assert said.endswith(KEPT)
