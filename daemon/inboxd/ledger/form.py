"""What the ledger file says of itself: its mark and schema version, and how times and paths are written in it."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from inboxd.errors import LedgerError

APPLICATION_ID = 0x696E6278
"""`PRAGMA application_id`: "inbx"."""
SCHEMA = "0002"
"""The migration that this program is written for: the newest in migrations/versions."""


AT_ONCE = ""
"""A time that is always due: it sorts before every other, wherever the clock is set to."""


def stamp(at: float) -> str:
    """UTC seconds since the epoch as text that SQLite's date functions take and that sorts by time."""
    return datetime.fromtimestamp(at, UTC).isoformat(" ", "milliseconds")[:23]


def schema_of(raw: sqlite3.Connection, path: Path) -> str | None:
    """The schema version of an open file; None for an empty one.

    Raises:
        LedgerError: it is another program's database.
    """
    (mark,) = raw.execute("PRAGMA application_id").fetchone()
    if mark == APPLICATION_ID:
        row = raw.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(row[0]) if row else None
    (tables,) = raw.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if mark or tables:
        raise LedgerError(
            f"{path} is another program's database, not a ledger of inboxd",
            "Move it away, or set `state` in the configuration to another folder.",
        )
    return None


def split(path: bytes) -> tuple[bytes, bytes]:
    """Folder and name, as they are kept: an inbox is the folder `b""` to its own files, the root the folder `b"/"`."""
    folder, slash, name = path.rpartition(b"/")
    return folder or slash, name


def join(folder: bytes, name: bytes) -> bytes:
    """The path that `split` took apart."""
    return folder + b"/" + name if folder not in (b"", b"/") else folder + name
