"""Originals that move to an archive: whole, under a name of their own, and only what was read."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.rooms.outputs_stage import Stage

from inboxd.rooms import archiving
from inboxd.rooms.folders import Folder
from inboxd.rooms.listing import signature_of
from inboxd.rooms.outputs import Archived, Undeliverable, Vanished


@pytest.fixture(params=["same filesystem", "another filesystem"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    if request.param == "same filesystem":
        (tmp_path / "archive").mkdir()
        yield tmp_path / "archive"
        return
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("/dev/shm is no filesystem of its own here")
    folder = memory / f"inboxd-test-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def stage_for(tmp_path: Path, archive: Path, path: bytes = b"scan.pdf") -> Stage:
    return Stage(tmp_path, path, after="archive", archive_dir=str(archive)).drop()


def test_an_original_moves_with_its_folders_mode_and_time(tmp_path: Path, archive: Path) -> None:
    stage = stage_for(tmp_path, archive, b"2024/caf\xe9.pdf")
    stage.original.chmod(0o640)
    os.utime(stage.original, ns=(10**18, 10**18 + 7))
    stage.note()
    there = archive / "2024" / "caf\udce9.pdf"
    assert stage.archive() == Archived(os.fsencode(there))
    assert there.read_bytes() == b"%PDF a scan"
    assert (stat.S_IMODE(there.stat().st_mode), there.stat().st_mtime_ns) == (0o640, 10**18 + 7)
    assert os.listdir(stage.original.parent) == []


def test_other_content_of_the_same_name_is_kept_and_the_newcomer_numbered(tmp_path: Path, archive: Path) -> None:
    (archive / "scan.pdf").write_bytes(b"%PDF an older scan")
    (archive / "scan.2.pdf").mkdir()
    stage = stage_for(tmp_path, archive)
    assert stage.archive() == Archived(os.fsencode(archive / "scan.3.pdf"))
    assert (archive / "scan.pdf").read_bytes() == b"%PDF an older scan"
    assert (archive / "scan.3.pdf").read_bytes() == b"%PDF a scan"


@pytest.mark.parametrize("mtime_s", [-11_644_473_600, 13_569_465_600], ids=["1601", "2400"])
@pytest.mark.parametrize("inode", [7, 2**63 + 7])
def test_an_original_is_known_again_by_times_and_inodes_beyond_64_bits(mtime_s: int, inode: int) -> None:
    """As SMB and NFS have them; the ledger keeps them folded."""
    told = {"st_mtime_ns": mtime_s * 10**9, "st_ctime_ns": 0}
    status = os.stat_result((stat.S_IFREG, inode, 1, 1, 0, 0, 99, 0, mtime_s, 0), told)
    assert archiving.same(status, signature_of(status, keeps_inodes=True))
    assert archiving.same(status, signature_of(status, keeps_inodes=False))
    later = os.stat_result((stat.S_IFREG, inode, 1, 1, 0, 0, 99, 0, mtime_s + 1, 0), told | {"st_mtime_ns": 0})
    assert not archiving.same(later, signature_of(status, keeps_inodes=True))


def test_the_same_content_is_not_archived_twice(tmp_path: Path, archive: Path) -> None:
    (archive / "scan.pdf").write_bytes(b"%PDF a scan")
    stage = stage_for(tmp_path, archive)
    assert stage.archive() == Archived(os.fsencode(archive / "scan.pdf"))
    assert os.listdir(archive) == ["scan.pdf"]
    assert not stage.original.exists()


def test_an_original_moves_where_inodes_are_made_up(tmp_path: Path, archive: Path) -> None:
    stage = stage_for(tmp_path, archive)
    stage.seen = replace(stage.seen, inode=0)
    assert isinstance(stage.archive(), Archived)
    assert os.listdir(archive) == ["scan.pdf"]


def test_a_repeat_finds_the_original_in_the_archive(tmp_path: Path, archive: Path) -> None:
    stage = stage_for(tmp_path, archive)
    (archive / "scan.pdf").write_bytes(b"%PDF an older scan")
    first = stage.archive()
    assert stage.archive() == first == Archived(os.fsencode(archive / "scan.2.pdf"))


def test_outputs_can_be_put_back_for_an_original_in_the_archive(tmp_path: Path, archive: Path) -> None:
    stage = stage_for(tmp_path, archive)
    stage.deliver()
    stage.archive()
    (stage.box / "scan.pdf.md").unlink()
    assert isinstance(stage.deliver(), tuple)
    assert stage.names() == {"scan.pdf.md", "scan.pdf.json"}


def test_an_original_that_was_deleted_is_told(tmp_path: Path, archive: Path) -> None:
    stage = stage_for(tmp_path, archive)
    stage.original.unlink()
    assert isinstance(stage.archive(), Vanished)


def test_new_content_is_never_moved_away_unread(tmp_path: Path, archive: Path) -> None:
    stage = stage_for(tmp_path, archive)
    stage.original.write_bytes(b"%PDF another scan")
    outcome = stage.archive()
    assert isinstance(outcome, Undeliverable)
    assert "changed after it was read" in outcome.reason
    assert stage.original.read_bytes() == b"%PDF another scan"
    assert os.listdir(archive) == []


def test_new_content_that_comes_in_the_last_moment_stays(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stage_for(tmp_path, archive)
    step = "_remove" if archive.stat().st_dev != tmp_path.stat().st_dev else "rename_new"
    real = getattr(archiving, step)

    def replaced_just_before(*args: object) -> None:
        monkeypatch.setattr(archiving, step, real)
        newcomer = tmp_path / "newcomer"
        newcomer.write_bytes(b"%PDF a scum")
        os.utime(newcomer, ns=(stage.seen.mtime_ns, stage.seen.mtime_ns))
        newcomer.rename(stage.original)
        real(*args)

    monkeypatch.setattr(archiving, step, replaced_just_before)
    assert isinstance(stage.archive(), Undeliverable)
    assert stage.original.read_bytes() == b"%PDF a scum"


def test_a_link_in_the_archive_is_not_followed(tmp_path: Path, archive: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (archive / "sub").symlink_to(tmp_path / "elsewhere")
    stage = stage_for(tmp_path, archive, b"sub/scan.pdf")
    outcome = stage.archive()
    assert isinstance(outcome, Undeliverable)
    assert "the original stays where it is" in outcome.reason
    assert stage.original.exists()


def test_an_archive_that_is_the_inbox_by_another_name_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "archive").symlink_to(tmp_path / "inbox")
    stage = stage_for(tmp_path, tmp_path / "archive")
    stage.archive()
    assert stage.original.read_bytes() == b"%PDF a scan"


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes here")
def test_a_copy_carries_extended_attributes(tmp_path: Path, archive: Path) -> None:
    stage = stage_for(tmp_path, archive)
    try:
        os.setxattr(stage.original, "user.origin", b"scanner 3")
        os.setxattr(archive, "user.probe", b"")
    except OSError:
        pytest.skip("these filesystems have no extended attributes for users")
    stage.note().archive()
    assert os.getxattr(archive / "scan.pdf", "user.origin") == b"scanner 3"


def test_a_longest_name_gets_its_number_too(tmp_path: Path, archive: Path) -> None:
    name = b"a" * 251 + b".pdf"
    (archive / os.fsdecode(name)).write_bytes(b"%PDF an older scan")
    outcome = stage_for(tmp_path, archive, name).archive()
    assert isinstance(outcome, Archived)
    moved = outcome.path.rpartition(b"/")[2]
    assert len(moved) == 255
    assert moved.endswith(b".2.pdf")


def test_an_archive_on_a_full_disk_keeps_the_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_for(tmp_path, tmp_path / "archive")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archiving, "_rename", lambda *_: False)
    monkeypatch.setattr(os, "write", full)
    outcome = stage.archive()
    assert isinstance(outcome, Undeliverable)
    assert stage.original.read_bytes() == b"%PDF a scan"
    with Folder.open(os.fsencode(tmp_path / "archive")) as folder:
        assert os.listdir(folder.fd) == []
