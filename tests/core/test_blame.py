"""A page that kills the engine alone explains its deaths; an engine that dies of everything is to blame itself."""

from __future__ import annotations

from collections import Counter

from inboxd.core.blame import ALONE_AFTER, TOO_MANY, Streak
from inboxd.model import FileId, InboxId, Kind, PageClaim, PageId


def page(file: int, number: int = 1, deaths: int = 0) -> PageClaim:
    return PageClaim(PageId(100 * file + number), FileId(file), InboxId(1), number, 1 + deaths, deaths, Kind.PDF, "", 0)


def test_deaths_that_nothing_explains_are_the_engines() -> None:
    streak = Streak()
    for _ in range(TOO_MANY):
        streak = streak.died([page(1), page(2)])
        assert not streak.is_the_engines
    assert streak.died([page(1), page(2)]).is_the_engines


def test_the_pause_doubles_and_has_an_end() -> None:
    streak, pauses = Streak(), []
    for _ in range(8):
        streak = streak.died([page(1), page(2)])
        pauses.append(streak.pause_s)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def killed_by(pages: list[PageClaim], batch: int) -> Streak:
    """All of these kill the engine, in batches of `batch` first and then alone, with no good page between."""
    streak, deaths = Streak(), Counter[PageId]()
    for start in range(0, len(pages), batch):
        company = pages[start : start + batch]
        for _ in range(ALONE_AFTER):
            streak = streak.died(company)
            deaths.update(one.page for one in company)
        for one in company:
            assert not streak.is_the_engines, f"given up before page {one}"
            streak = streak.died([page(one.file, one.number, deaths[one.page])])
    return streak


def test_a_long_document_of_nothing_but_poison_is_that_documents_fault() -> None:
    assert not killed_by([page(1, number) for number in range(1, 101)], 16).is_the_engines


def test_a_few_files_of_poison_are_their_own_fault() -> None:
    assert not killed_by([page(file, number) for file in range(TOO_MANY) for number in (1, 2, 3)], 4).is_the_engines


def test_when_every_file_is_poison_the_engine_is() -> None:
    assert killed_by([page(file) for file in range(TOO_MANY + 1)], TOO_MANY + 1).is_the_engines


def test_the_first_death_alone_explains_nothing() -> None:
    streak = Streak()
    for _ in range(TOO_MANY + 1):
        streak = streak.died([page(1)])
    assert streak.is_the_engines
