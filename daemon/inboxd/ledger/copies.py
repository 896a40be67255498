"""Verbs that intake counts by: the copies in the spool, and the files before and behind it."""

from __future__ import annotations

from sqlalchemy import Connection, text

from inboxd.core.lifecycle import FileState
from inboxd.ledger import conditions as when

_NEEDED = text(
    f"SELECT EXISTS (SELECT 1 FROM files WHERE sha256 = :sha256 AND {when.ORIGINAL} AND {when.NEEDS_COPY})"  # noqa: S608 - conditions of our own
)
_BACKLOG = text(f"SELECT count(*) FROM files WHERE {when.READY}")  # noqa: S608 - as above
_SETTLING = text(f"SELECT count(*) FROM files WHERE {when.CURRENT} AND state = '{FileState.SETTLING}'")  # noqa: S608 - as above


def needed(conn: Connection, sha256: str) -> bool:
    """Whether a file with this content is still to be read, and needs the copy for that."""
    return bool(conn.scalar(_NEEDED, {"sha256": sha256}))


def backlog(conn: Connection) -> int:
    """How many files are ready and not yet opened."""
    return int(conn.scalar(_BACKLOG) or 0)


def settling(conn: Connection) -> int:
    """How many files settle."""
    return int(conn.scalar(_SETTLING) or 0)
