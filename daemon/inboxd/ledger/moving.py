"""Moves files from state to state, only as the lifecycle's table allows, and writes down what happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Connection, Row, Update, bindparam, insert, select, text, update

from inboxd.core.lifecycle import FINAL, FileState, move, sources
from inboxd.ledger import conditions as when
from inboxd.ledger.conditions import Delivery
from inboxd.ledger.form import stamp
from inboxd.ledger.schema import events, files, pages
from inboxd.model import FileId, PageState

T = TypeVar("T")
AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"
"""A row whose columns are named where it is selected: SQLAlchemy can't tell their types."""

_OVERTAKEN = frozenset({FileState.SETTLING, FileState.VANISHED})
_EVENT = insert(events)


def chunks(items: Iterable[T], size: int = 500) -> Iterator[list[T]]:
    """`items` in lists that are short enough for one statement."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def event(
    at: str, name: str, detail: str = "", *, file: int | None = None, page: int | None = None, run: int | None = None
) -> dict[str, object]:
    """A row for `happened`; `page` is a page number."""
    return {"at": at, "event": name, "detail": detail, "file": file, "page": page, "inbox": None, "run": run}


def happened(conn: Connection, *rows: dict[str, object]) -> None:
    """Append events to the history."""
    if rows:
        conn.execute(_EVENT, rows)


def to_state(conn: Connection, file: FileId, new: FileState, *, now: float, **values: object) -> bool:
    """Move one file, with plain values for other columns. False, and nothing done, when it vanished or was requeued
    meanwhile: whoever asks is too late.

    Raises:
        IllegalMove: the lifecycle has no such move.
    """
    if new in FINAL:
        values = {"finished": stamp(now), "next_try_at": None, **values}
    given = {f"new_{name}": value for name, value in values.items()}
    if conn.execute(_moves_to(new, tuple(values)), {"file": file, **given}).rowcount:
        return True
    state = conn.scalar(select(files.c.state).where(files.c.id == file))
    if state is not None and state not in _OVERTAKEN:
        move(FileState(state), new)
    return False


@cache
def _moves_to(new: FileState, columns: tuple[str, ...]) -> Update:
    """Made once for each set of columns: SQLAlchemy takes ten times longer to build a statement than to run it."""
    return (
        update(files)
        .where(files.c.id == bindparam("file"), files.c.state.in_(sorted(sources(new))))
        .values({"state": new, **{name: bindparam(f"new_{name}") for name in columns}})
    )


def settle(conn: Connection, file: FileId, reason: str, *, now: float, **values: object) -> bool:
    """Back to the start, for the original to be taken up again; what was read of the same content stays.

    Raises:
        IllegalMove: the lifecycle has no such move.
    """
    put_back_pages(conn, [file])
    return to_state(
        conn,
        file,
        FileState.SETTLING,
        now=now,
        reason=reason,
        duplicate_of=None,
        delivery=Delivery.NONE,
        delivery_reason="",
        next_delivery_at=None,
        next_try_at=None,
        started=None,
        finished=None,
        run=None,
        **values,
    )


def pages_died(conn: Connection, rows: Sequence[AnyRow], reason: str, *, now: float) -> None:
    """Write down that a process died with these pages (`file`, `number` of each row)."""
    happened(conn, *(event(stamp(now), "page died", reason, file=row.file, page=row.number) for row in rows))


def count_death(conn: Connection, file: FileId) -> None:
    """A process died opening this file."""
    conn.execute(update(files).where(files.c.id == file).values(deaths=files.c.deaths + 1))


def put_back_pages(conn: Connection, ids: Sequence[FileId]) -> None:
    """No page of a file that is not being read stays in flight; the attempt is not counted."""
    for chunk in chunks(ids):
        conn.execute(
            update(pages)
            .where(pages.c.file.in_(chunk), text(when.IN_FLIGHT))
            .values(state=PageState.PENDING, attempts=pages.c.attempts - 1)
        )
