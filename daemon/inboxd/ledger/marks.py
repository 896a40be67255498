"""Verbs for what tells an inbox from an empty mount point, and this ledger from another."""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert

from inboxd.ledger.form import stamp
from inboxd.ledger.schema import control
from inboxd.model import InboxId

_INSTANCE = "instance"


def instance(conn: Connection, *, now: float) -> str:
    """This ledger's own name, the same for as long as it exists: it stands in the marker of each inbox."""
    _set(conn, _INSTANCE, secrets.token_hex(8), now, over=False)
    return _get(conn, _INSTANCE)


def memory(conn: Connection, inbox: InboxId) -> str:
    """What was last remembered of an inbox; empty where nothing was."""
    return _get(conn, _name(inbox))


def remember(conn: Connection, inbox: InboxId, memory: str, *, now: float) -> None:
    """Keep what an inbox is known again by."""
    _set(conn, _name(inbox), memory, now, over=True)


def _name(inbox: InboxId) -> str:
    return f"mark of inbox {inbox}"


def _get(conn: Connection, name: str) -> str:
    return conn.scalar(select(control.c.value).where(control.c.name == name)) or ""


def _set(conn: Connection, name: str, value: str, now: float, *, over: bool) -> None:
    row = insert(control).values(name=name, value=value, at=stamp(now))
    if over:
        conn.execute(row.on_conflict_do_update(index_elements=["name"], set_={"value": value, "at": stamp(now)}))
    else:
        conn.execute(row.on_conflict_do_nothing())
