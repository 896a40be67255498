from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from inboxd.rooms.spool import CopyStopped, Draft, Spool, SpoolError


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(tmp_path / "spool")
    assert spool.free() > 0
    return spool


@pytest.fixture
def source(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "source").write_bytes(CONTENT)
    fd = os.open(tmp_path / "source", os.O_RDONLY)
    yield fd
    os.close(fd)


CONTENT = os.urandom(2_500_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def go_on() -> bool:
    return False


def copied(spool: Spool, source: int) -> Draft:
    return spool.copy(source, len(CONTENT), go_on)


def lying(spool: Spool) -> set[str]:
    return {path.name for path in spool.path(SHA256).parents[1].glob("*/*")}


def test_a_copy_is_kept_under_its_hash(spool: Spool, source: int) -> None:
    draft = copied(spool, source)
    assert (draft.sha256, draft.size) == (SHA256, len(CONTENT))
    assert not spool.holds(SHA256, len(CONTENT))
    path = spool.keep(draft)
    assert path == spool.path(SHA256) and path.read_bytes() == CONTENT
    assert path.parent.name == SHA256[:2]
    assert spool.holds(SHA256, len(CONTENT)) and not spool.holds(SHA256, 1)
    assert lying(spool) == {SHA256}
    assert path.stat().st_mode & 0o077 == 0


def test_a_draft_can_be_discarded(spool: Spool, source: int) -> None:
    spool.discard(copied(spool, source))
    assert lying(spool) == set()


def test_a_file_that_grows_meanwhile_shows_it_and_is_not_followed_for_ever(spool: Spool, source: int) -> None:
    assert spool.copy(source, 1_000_000, go_on).size == 1_000_001


def test_a_file_that_shrank_shows_it(spool: Spool, source: int) -> None:
    assert spool.copy(source, len(CONTENT) + 5, go_on).size == len(CONTENT)


def test_the_same_content_twice_is_one_copy(spool: Spool, source: int) -> None:
    spool.keep(copied(spool, source))
    spool.keep(copied(spool, source))
    assert lying(spool) == {SHA256}


def test_a_copy_is_not_removed_while_an_arrival_holds_it(spool: Spool, source: int) -> None:
    spool.keep(copied(spool, source))
    spool.keep(copied(spool, source))
    spool.unhold(SHA256)
    spool.release(SHA256)
    assert lying(spool) == {SHA256}
    spool.unhold(SHA256)
    spool.release(SHA256)
    assert lying(spool) == set()
    spool.release(SHA256)  # twice does no harm


def test_a_copy_that_the_ledger_does_not_know_yet_is_not_listed(spool: Spool, source: int) -> None:
    spool.keep(copied(spool, source))
    assert spool.copies() == set()
    spool.unhold(SHA256)
    copied(spool, source)
    assert spool.copies() == {SHA256}


def test_a_sweep_leaves_what_is_needed(spool: Spool, source: int) -> None:
    spool.keep(copied(spool, source))
    copied(spool, source)  # a life ended here
    other = spool.path("ab" * 32)
    other.parent.mkdir()
    other.write_bytes(b"done long ago")
    assert spool.sweep({SHA256}) == 2
    assert lying(spool) == {SHA256}


def test_a_sweep_of_nothing(tmp_path: Path) -> None:
    assert Spool(tmp_path / "not there").sweep(set()) == 0


def test_a_stop_cuts_a_copy_short_and_leaves_nothing(spool: Spool, source: int) -> None:
    with pytest.raises(CopyStopped):
        spool.copy(source, len(CONTENT), lambda: True)
    assert lying(spool) == set()


def test_trouble_with_the_source_is_not_the_spool_s(spool: Spool, tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(IsADirectoryError):
        spool.copy(folder, 100, go_on)
    os.close(folder)
    assert lying(spool) == set()


def test_trouble_with_the_spool_is_not_the_source_s(tmp_path: Path, source: int) -> None:
    (tmp_path / "file").write_text("in the way")
    spool = Spool(tmp_path / "file")
    with pytest.raises(SpoolError, match="Not a directory"):
        spool.free()
    with pytest.raises(SpoolError):
        spool.copy(source, 100, go_on)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_leaves_nothing(spool: Spool, source: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def full(path: Path, flags: int, mode: int = 0o777, **options: int) -> int:
        real_fd = real(path, flags, mode, **options)
        if flags & os.O_CREAT:
            os.close(real_fd)
            return real("/dev/full", os.O_WRONLY)
        return real_fd

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(SpoolError, match="No space left"):
        copied(spool, source)
    assert lying(spool) == set()
