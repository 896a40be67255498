"""The table of moves hangs together: nothing is a dead end but the ends, and those only until somebody says so."""

from __future__ import annotations

import pytest

from inboxd.core.lifecycle import (
    FINAL,
    FINAL_PAGE,
    MOVES,
    PAGE_MOVES,
    FileState,
    IllegalMove,
    move,
    move_page,
    sources,
)
from inboxd.model import PageState


def test_every_state_has_its_moves() -> None:
    assert set(MOVES) == set(FileState)
    assert set(PAGE_MOVES) == set(PageState)


@pytest.mark.parametrize("state", FileState)
def test_sources_are_the_moves_backwards(state: FileState) -> None:
    assert sources(state) == {old for old in FileState if state in MOVES[old]}


@pytest.mark.parametrize("state", sorted(set(FileState) - FINAL))
def test_what_is_not_final_can_end_well_and_be_set_aside(state: FileState) -> None:
    reached, before = {state}, set[FileState]()
    while reached != before:
        before = set(reached)
        reached |= {new for old in before if old not in FINAL for new in MOVES[old]}
    assert {FileState.DONE, FileState.QUARANTINED, FileState.VANISHED} <= reached


@pytest.mark.parametrize("state", sorted(FINAL))
def test_whatever_has_ended_can_be_requeued(state: FileState) -> None:
    assert FileState.SETTLING in MOVES[state]


def test_a_page_has_one_last_word() -> None:
    assert all(not PAGE_MOVES[state] for state in FINAL_PAGE)
    assert move_page(PageState.IN_FLIGHT, PageState.OK) is PageState.OK
    with pytest.raises(IllegalMove, match="from ok to pending"):
        move_page(PageState.OK, PageState.PENDING)


def test_a_move_that_is_not_there() -> None:
    assert move(FileState.SETTLING, FileState.READY) is FileState.READY
    with pytest.raises(IllegalMove, match="from done to reading"):
        move(FileState.DONE, FileState.READING)
