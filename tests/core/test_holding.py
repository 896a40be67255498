"""Whom a refusal holds up, for how long, and who is tried to find out that it is over."""

from __future__ import annotations

import errno

import pytest

from inboxd.core.holding import Holding
from inboxd.core.trouble import Reach, reach
from inboxd.model import Due, FileId

EVERY = 30.0


def due(*folders: bytes) -> list[Due]:
    return [Due(FileId(number), folder) for number, folder in enumerate(folders)]


def numbers(chosen: list[Due]) -> list[int]:
    return [one.file for one in chosen]


@pytest.fixture
def holding() -> Holding:
    return Holding(EVERY)


def test_without_trouble_all_are_tried(holding: Holding) -> None:
    assert sorted(numbers(holding.choose(due(b"a", b"b", b"a"), 0.0))) == [0, 1, 2]
    assert holding.is_open(b"a") and not holding.is_shut(0.0)


def test_what_concerns_one_file_holds_up_no_other(holding: Holding) -> None:
    holding.refused(b"a", Reach.FILE, "in use", 0.0)
    assert holding.is_open(b"a")
    assert numbers(holding.choose(due(b"a", b"a"), 0.0)) == [0, 1]


def test_a_folder_that_refuses_holds_up_no_other_folder(holding: Holding) -> None:
    holding.refused(b"a", Reach.FOLDER, "no permission", 0.0)
    assert not holding.is_shut(1.0)
    held = holding.held(b"a", 1.0)
    assert held is not None and (held.until, held.reason) == (EVERY, "no permission")
    assert numbers(holding.choose(due(b"a", b"b", b"a", b"b"), 1.0)) == [1, 3]


def test_then_one_of_it_is_tried_each_time_another(holding: Holding) -> None:
    tried = []
    now = 0.0
    for _ in range(4):
        holding.refused(b"a", Reach.FOLDER, "no permission", now)
        now += EVERY
        first, *others = numbers(holding.choose(due(b"a", b"b", b"a", b"a"), now))
        tried.append(first)
        assert others == [1]
    assert set(tried) == {0, 2, 3}
    holding.took(b"a")
    assert numbers(holding.choose(due(b"a", b"a"), now)) == [0, 1]


def test_a_full_disk_shuts_the_inbox_and_one_in_all_is_tried(holding: Holding) -> None:
    holding.refused(b"a", Reach.INBOX, "full", 0.0)
    for now in (0.0, EVERY, 2 * EVERY):
        assert holding.is_shut(now + 1)
        assert holding.choose(due(b"a", b"b", b"c"), now + 1) == []
        held = holding.held(b"c", now + 1)
        assert held is not None and held.reason == "full"
        (probe,) = holding.choose(due(b"b", b"c", b"a"), now + EVERY)
        assert probe.folder == b"b"  # who waited longest: those that were tried are put off and come last
        holding.refused(b"b", Reach.INBOX, "full", now + EVERY)
    holding.took(b"c")
    assert not holding.is_shut(2 * EVERY)
    assert numbers(holding.choose(due(b"d", b"d"), 2 * EVERY)) == [0, 1]


def test_a_folder_that_is_a_full_disk_of_its_own_does_not_shut_the_inbox_again(holding: Holding) -> None:
    holding.refused(b"mount", Reach.INBOX, "full", 0.0)
    holding.took(b"a")
    for now in (EVERY, 2 * EVERY):
        assert numbers(holding.choose(due(b"mount", b"a", b"mount"), now))[1:] == [1]
        holding.refused(b"mount", Reach.INBOX, "full", now)
        assert not holding.is_shut(now)
        assert numbers(holding.choose(due(b"mount", b"a"), now)) == [1]


def test_but_the_disk_of_the_others_may_fill_up_too(holding: Holding) -> None:
    holding.refused(b"mount", Reach.FOLDER, "no permission", 0.0)
    holding.refused(b"a", Reach.INBOX, "full", 1.0)
    assert holding.is_shut(2.0)


@pytest.mark.parametrize(
    ("number", "far"),
    [
        (errno.ENOSPC, Reach.INBOX),
        (errno.EDQUOT, Reach.INBOX),
        (errno.EROFS, Reach.INBOX),
        (errno.ENOTCONN, Reach.INBOX),
        (errno.EACCES, Reach.FOLDER),
        (errno.ELOOP, Reach.FOLDER),
        (errno.ENAMETOOLONG, Reach.FILE),
        (errno.EBUSY, Reach.FILE),
        (errno.EIO, Reach.FILE),  # a bad sector below one output must not hold up its folder
        (errno.ESTALE, Reach.FILE),
        (errno.EFBIG, Reach.FILE),
    ],
)
def test_how_far_trouble_reaches(number: int, far: Reach) -> None:
    assert reach(number) is far
