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


def remark(conn: Connection, run: RunId, what: str, detail: str, *, now: float) -> None:
    """Write into this life's history what was done about its health."""
    happened(conn, event(stamp(now), what, detail, run=run))


def ask_recycle(conn: Connection, who: str, *, now: float) -> None:
    """Ask the running daemon to end this life and begin the next; it notices within a second or two."""
    at = stamp(now)
    asked = {"value": f"{who} at {at} UTC", "at": at}
    conn.execute(insert(control).values(name=RECYCLE, **asked).on_conflict_do_update(["name"], set_=asked))
