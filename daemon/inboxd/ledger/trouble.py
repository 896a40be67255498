"""What SQLite's errors mean for a person, and which of them pass by waiting."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from inboxd.errors import LedgerError

PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR_SHMSIZE,  # the disk is full, met while the -shm file grows
    }
)

_MEANING = {
    sqlite3.SQLITE_BUSY: (
        "is locked by another program",
        "Find it with `fuser -v {path}`, and end what it is doing there.",
    ),
    sqlite3.SQLITE_FULL: ("cannot grow: the disk is full", "Make room on the disk that holds {folder}."),
    sqlite3.SQLITE_NOTADB: (
        "is not a SQLite database",
        "Look at what it is. Move it away for a new ledger, or set `state` to another folder.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        "is damaged",
        "Stop inboxd and put a backup in its place, or rescue what can be read:\n"
        "  sqlite3 {path} .recover | sqlite3 rescued.sqlite\n"
        "Without a ledger every file in the inboxes is read anew; none is lost.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "cannot be opened",
        "Check that {folder} is there and that this user may read and write in it.",
    ),
    sqlite3.SQLITE_PERM: ("cannot be opened", "Check the permissions of {path}."),
    sqlite3.SQLITE_READONLY: (
        "cannot be written by this user",
        "Run this as the daemon's user, or check that {folder} is not mounted read-only.",
    ),
    sqlite3.SQLITE_IOERR: ("met an I/O error", "Look at the kernel's log for trouble with the disk of {folder}."),
}


def passes(error: sqlite3.Error) -> bool:
    """Whether waiting may help: somebody else holds the lock, or the disk is full."""
    code = code_of(error)
    return code in PASSING or code & 0xFF in PASSING


def is_grave(error: sqlite3.Error) -> bool:
    """Whether the database itself is in trouble, rather than one statement wrong."""
    return passes(error) or code_of(error) & 0xFF in _MEANING


def cause_of(error: BaseException) -> sqlite3.Error:
    """SQLite's own error, also where SQLAlchemy has wrapped it."""
    original = getattr(error, "orig", None) or error
    return original if isinstance(original, sqlite3.Error) else sqlite3.Error(str(error))


def code_of(error: sqlite3.Error) -> int:
    """SQLite's extended result code; 0 where the error did not come from SQLite."""
    return int(getattr(error, "sqlite_errorcode", 0) or 0)


def explain(error: sqlite3.Error, path: Path) -> LedgerError:
    """The same error for a person, with what to do about it."""
    what, advice = _MEANING.get(code_of(error) & 0xFF, ("cannot be used", "Look at the message above."))
    return LedgerError(f"the ledger {path} {what} ({error})", advice.format(path=path, folder=path.parent))
