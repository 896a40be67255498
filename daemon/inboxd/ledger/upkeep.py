"""Verbs about a life's health: what was done about it, and a restart that a person asks for."""

from __future__ import annotations

from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite import insert

from inboxd.ledger.form import stamp
from inboxd.ledger.moving import event, happened
from inboxd.ledger.schema import control
from inboxd.model import RunId

RECYCLE = "recycle"
"""Name in `control`: when a restart was last asked for, and by whom."""
ENGINES = "engines"
"""Name in `control`: which of several engines do not read, and why; "" while all do."""


def remark(conn: Connection, run: RunId, what: str, detail: str, *, now: float) -> None:
    """Write into this life's history what was done about its health."""
    happened(conn, event(stamp(now), what, detail, run=run))


def ask_recycle(conn: Connection, who: str, *, now: float) -> None:
    """Ask the running daemon to end this life and begin the next; it notices within a second or two."""
    _set(conn, RECYCLE, f"{who} at {stamp(now)} UTC", stamp(now))


def engines(conn: Connection, run: RunId, missing: str, *, now: float) -> None:
    """Of several engines some do not read: how many of how many, and why; "" when all do again."""
    _set(conn, ENGINES, missing, stamp(now))
    remark(conn, run, "engines missing" if missing else "engines complete", missing, now=now)


def _set(conn: Connection, name: str, value: str, at: str) -> None:
    told = {"value": value, "at": at}
    conn.execute(insert(control).values(name=name, **told).on_conflict_do_update(["name"], set_=told))
