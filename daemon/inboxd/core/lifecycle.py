"""The life of a file and of a page, as one table of moves; the ledger asks here before it writes a state."""

from __future__ import annotations

from enum import StrEnum

from inboxd.model import PageState


class FileState(StrEnum):
    """settling → ready → reading → done, and the ways out."""

    SETTLING = "settling"  # seen; empty, growing, busy, no permission, incomplete: waiting is no failure
    READY = "ready"  # complete, hashed and spooled
    READING = "reading"  # opened; its pages are on their way
    RETRYING = "retrying"  # trouble that may pass; `next_try_at` says when
    DONE = "done"
    DUPLICATE = "duplicate"  # same content as `duplicate_of`
    QUARANTINED = "quarantined"  # needs a person; `reason` says why
    SKIPPED = "skipped"  # not for us; `reason` says why
    VANISHED = "vanished"  # deleted, replaced or no longer watched before it was done


FINAL = frozenset({FileState.DONE, FileState.DUPLICATE, FileState.QUARANTINED, FileState.SKIPPED, FileState.VANISHED})

_S = FileState
MOVES: dict[FileState, frozenset[FileState]] = {
    _S.SETTLING: frozenset({_S.READY, _S.DUPLICATE, _S.QUARANTINED, _S.SKIPPED, _S.VANISHED, _S.DONE}),
    _S.READY: frozenset({_S.READING, _S.RETRYING, _S.QUARANTINED, _S.SETTLING, _S.VANISHED}),
    _S.READING: frozenset({_S.DONE, _S.READY, _S.RETRYING, _S.QUARANTINED, _S.SETTLING, _S.VANISHED}),
    _S.RETRYING: frozenset({_S.READY, _S.READING, _S.QUARANTINED, _S.SETTLING, _S.VANISHED}),
    # A person's `requeue` takes a finished file up again.
    _S.DONE: frozenset({_S.SETTLING}),
    # Its original turned out to be unreadable before it was done: the copy is no better.
    _S.DUPLICATE: frozenset({_S.SETTLING, _S.QUARANTINED}),
    _S.QUARANTINED: frozenset({_S.SETTLING}),
    _S.SKIPPED: frozenset({_S.SETTLING}),
    _S.VANISHED: frozenset({_S.SETTLING}),
}

_P = PageState
FINAL_PAGE = frozenset({_P.OK, _P.BLANK, _P.SUSPECT, _P.FAILED})
PAGE_MOVES: dict[PageState, frozenset[PageState]] = {
    _P.PENDING: frozenset({_P.IN_FLIGHT, _P.FAILED}),
    _P.IN_FLIGHT: frozenset({_P.PENDING}) | FINAL_PAGE,
    _P.OK: frozenset(),
    _P.BLANK: frozenset(),
    _P.SUSPECT: frozenset(),
    _P.FAILED: frozenset(),
}


class IllegalMove(Exception):
    """The program asked for a move that the table does not have: a defect, never a person's fault."""


def move(old: FileState, new: FileState) -> FileState:
    """The new state, if the table has that move.

    Raises:
        IllegalMove: it has not.
    """
    if new not in MOVES[old]:
        raise IllegalMove(f"a file cannot go from {old} to {new}")
    return new


def move_page(old: PageState, new: PageState) -> PageState:
    """As `move`, for a page.

    Raises:
        IllegalMove: the table has no such move.
    """
    if new not in PAGE_MOVES[old]:
        raise IllegalMove(f"a page cannot go from {old} to {new}")
    return new


def sources(new: FileState) -> frozenset[FileState]:
    """The states from which a file may come to `new`: for conditional updates."""
    return frozenset(old for old, to in MOVES.items() if new in to)
