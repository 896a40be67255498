"""A copy of the ledger as it was before its schema changed, so that one can go back to the inboxd that wrote it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from inboxd import faults

_ENDING = ".backup"


def keep(path: Path, schema: str) -> Path:
    """Copy what is committed in the ledger `path` to `<path>.<schema>.backup`; earlier copies of that kind go.

    The copy gets its name when it is whole and on disk; a killed process leaves at most a temporary, which the next
    try replaces.

    Raises:
        sqlite3.Error: it can't be read, or there is no room for the copy.
        OSError: the copy can't be made, synced or named.
    """
    copy = path.with_name(f"{path.name}.{schema}{_ENDING}")
    temp = copy.with_name(f"{copy.name}.tmp")
    temp.unlink(missing_ok=True)
    try:
        _copy(path, temp)
    except BaseException:
        temp.unlink(missing_ok=True)
        raise
    faults.point("backup.copied")
    temp.rename(copy)
    _sync(path.parent)
    for earlier in path.parent.glob(f"{path.name}.*{_ENDING}"):
        if earlier != copy:
            earlier.unlink()
    faults.point("backup.named")
    return copy


def _copy(path: Path, temp: Path) -> None:
    # Made by us, closed to whom the ledger is closed: SQLite would follow a link, and ask the umask.
    os.close(os.open(temp, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, path.stat().st_mode & 0o777))
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(temp, isolation_level=None)) as target:
        target.execute("PRAGMA journal_mode = OFF")  # a journal would be one more file to leave behind
        target.execute("PRAGMA synchronous = OFF")
        source.backup(target)
    _sync(temp)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
