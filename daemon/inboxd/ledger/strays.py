"""Verbs for what nobody holds any more: what a life leaves claimed goes back, and pauses end that a clock made long."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select, text, update

from inboxd.core.lifecycle import FileState
from inboxd.ledger import conditions as when
from inboxd.ledger.finishing import release_files
from inboxd.ledger.form import stamp
from inboxd.ledger.moving import event, happened, pages_died
from inboxd.ledger.schema import files, pages
from inboxd.model import PageState, RunId


@dataclass(frozen=True, slots=True)
class Strays:
    """How many files and pages an earlier run left claimed."""

    files: int
    pages: int


_STRAY = (
    update(pages)
    .where(text(when.IN_FLIGHT), pages.c.run != bindparam("run_"))
    .values(
        state=PageState.PENDING,
        attempts=pages.c.attempts - 1 + pages.c.at_risk,
        deaths=pages.c.deaths + pages.c.at_risk,
    )
    .returning(pages.c.file, pages.c.number, pages.c.at_risk)
)
_TRY_AT_ONCE = (
    text("UPDATE files SET next_try_at = :at WHERE state = 'retrying' AND next_try_at > :at"),
    text("UPDATE files SET next_delivery_at = '' WHERE delivery = 'owed' AND next_delivery_at > :at"),
    text("UPDATE pages SET next_try_at = NULL WHERE state = 'pending' AND next_try_at > :at"),
)


def release_strays(conn: Connection, run: RunId, *, now: float) -> Strays:
    """Put back what earlier lives held when they died: `run` is the life that begins.

    Only pages that were in an engine inside the dead process count an attempt and a death. What was being opened,
    rendered or read in a process of its own can't have been the cause: kill the daemon as often as you like. Whatever
    waits to be tried again is due at once: the clock may have been set back since.
    """
    held = conn.execute(_STRAY, {"run_": run}).all()
    pages_died(conn, [row for row in held if row.at_risk], "the daemon died with it", now=now)
    stray = conn.scalars(
        update(files)
        .where(text(when.BEING_READ), files.c.run != run)
        .values(state=FileState.READY, attempts=files.c.attempts - 1)
        .returning(files.c.id)
    ).all()
    happened(conn, *(event(stamp(now), "released", file=file, run=run) for file in stray))
    try_at_once(conn, now=now)
    return Strays(len(stray), len(held))


def try_at_once(conn: Connection, *, now: float) -> None:
    """Whatever waits for a later time is due now: the clock was set back, and what was a pause may be hours."""
    for statement in _TRY_AT_ONCE:
        conn.execute(statement, {"at": stamp(now)})


def release_held(conn: Connection, run: RunId, *, now: float) -> None:
    """What a life still holds at its orderly end goes back, as if it had never been claimed."""
    held = conn.scalars(select(files.c.id).where(text(when.BEING_READ), files.c.run == run)).all()
    release_files(conn, held, now=now)
