"""Opens the ledger for writing: on a local disk only, with the pragmas that keep it whole, at this program's schema."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from inboxd import faults
from inboxd.core.mounts import mount_of, parse
from inboxd.errors import LedgerError
from inboxd.ledger import trouble
from inboxd.ledger.form import schema_of
from inboxd.ledger.migrating import migrate
from inboxd.ledger.writer import Writer

P = ParamSpec("P")
T = TypeVar("T")

MOUNTINFO = Path("/proc/self/mountinfo")
OPEN_TIMEOUT_S = 30.0
"""Seconds that opening waits for another program's lock; afterwards a write waits as long as it takes."""
BUSY_MS = 5_000
"""Milliseconds that SQLite waits for a lock before the writer looks up, warns, and waits on."""
WAL_LIMIT = 64 * 1024**2
"""Bytes that the write-ahead log is cut back to after it grew beyond them."""


class Ledger:
    """The writing side of a ledger: one connection, on one thread, used through verbs."""

    def __init__(self, connection: Connection, path: Path) -> None:
        """Use `Ledger.open`."""
        self.path = path
        self._connection = connection
        self._writer = Writer(connection, path)

    @classmethod
    def open(cls, path: Path, *, create: bool = True) -> Self:
        """Open the ledger at `path`, bringing its schema up to date; make it if it is not there and `create` is set.

        Raises:
            LedgerError: it is missing, on a network mount, newer than this program, damaged, another program's,
                or locked; the advice says what to do.
        """
        path = path.absolute()
        _refuse_remote(path)
        if create:
            _make_folder(path.parent)
        elif not path.exists():
            raise LedgerError(f"there is no ledger at {path}", "The daemon makes it when it first runs: inboxd run.")
        try:
            connection = _connect(path)
        except sqlite3.Error as error:
            raise trouble.explain(error, path) from error
        try:
            _prepare(connection, path)
        except (sqlite3.Error, DBAPIError) as error:
            _disconnect(connection)
            raise trouble.explain(trouble.cause_of(error), path) from error
        except BaseException:
            _disconnect(connection)
            raise
        return cls(connection, path)

    async def write(self, verb: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `verb(connection, *args, **kwargs)` on the writer thread; returns once it is committed and on disk.

        Verbs that wait share a commit. One that raises leaves no trace, and raises here. A locked database or a
        full disk is waited out. Cancelled before its turn, a verb is not run.

        Raises:
            LedgerLost: the ledger can't be written any more, or is closed.
        """
        return await asyncio.wrap_future(self._submit(verb, *args, **kwargs))

    def write_now(self, verb: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As `write`, for a caller without an event loop."""
        return self._submit(verb, *args, **kwargs).result()

    @property
    def commits(self) -> int:
        """Transactions committed since it was opened."""
        return self._writer.commits

    @property
    def verbs(self) -> int:
        """Verbs carried out since it was opened."""
        return self._writer.verbs

    def close(self) -> None:
        """Carry out what is queued, then close. Idempotent."""
        self._writer.close()
        _disconnect(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _submit(self, verb: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._writer.submit(lambda connection: verb(connection, *args, **kwargs))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(
            f"cannot make the folder {folder} for the ledger: {error.strerror}",
            "Make it, owned by the user that runs inboxd, or set `state` in the configuration to another folder.",
        ) from error


def _connect(path: Path) -> Connection:
    """One SQLAlchemy connection that leaves transactions to the writer, and may be handed to its thread."""
    raw = sqlite3.connect(
        path, timeout=OPEN_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool, isolation_level="AUTOCOMMIT")
    return engine.connect()


def _disconnect(connection: Connection) -> None:
    connection.close()
    connection.engine.dispose()  # the pool would keep it open


def _prepare(connection: Connection, path: Path) -> None:
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    schema_of(raw, path)  # before anything is written: the file may not be ours
    if raw.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise LedgerError(
            f"the filesystem of {path} does not support SQLite's write-ahead log",
            "Set `state` in the configuration to a folder on a local disk.",
        )
    faults.point("ledger.made")
    raw.execute("PRAGMA synchronous = FULL")  # NORMAL lost acknowledged rows in simulated power cuts
    raw.execute("PRAGMA foreign_keys = ON")
    raw.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
    migrate(connection, raw, path)
    raw.execute(f"PRAGMA busy_timeout = {BUSY_MS}")


def _refuse_remote(path: Path) -> None:
    """SQLite's locks and shared memory don't hold across machines: two of them would corrupt the ledger."""
    real = os.path.realpath(os.fsencode(path))
    mount = mount_of(real, parse(MOUNTINFO.read_bytes()))
    if mount is not None and mount.is_remote:
        raise LedgerError(
            f"the ledger {path} would lie on a network mount ({mount.fstype} at {os.fsdecode(mount.point)})",
            "Set `state` in the configuration to a folder on a local disk. Inboxes and outputs may be on the share.",
        )
