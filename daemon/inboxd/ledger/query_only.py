"""A connection to the ledger that cannot write: the file is opened read-only, and SQLite refuses what is no query."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from inboxd.errors import LedgerError, UsageError
from inboxd.ledger import trouble
from inboxd.ledger.form import SCHEMA, schema_of

Parameters: TypeAlias = Sequence[object] | Mapping[str, object]

BUSY_S = 30.0
_ACTIONS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_TRANSACTION,  # of our own: `query` runs single statements
    }
)
_PRAGMAS = frozenset(
    {
        "compile_options",
        "data_version",
        "foreign_key_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "integrity_check",
        "quick_check",
        "table_info",
        "table_list",
        "table_xinfo",
    }
)
_DAMAGE_SHOWN = 10


class QueryOnly:
    """A read-only connection. Use it from one thread at a time; `interrupt` may be called from any."""

    def __init__(self, path: Path) -> None:
        """Open the ledger at `path`.

        Raises:
            LedgerError: it is missing, not a ledger, or has another schema than this program's.
        """
        self._path = path.absolute()
        try:
            self._connection = sqlite3.connect(
                f"{self._path.as_uri()}?mode=ro",
                uri=True,
                timeout=BUSY_S,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=64,
            )
        except sqlite3.Error as error:
            raise trouble.explain(error, self._path) from error
        # A query may make text of a name that is not UTF-8, which is no reason to end it.
        self._connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        try:
            self._check()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent."""
        self._connection.close()

    def interrupt(self) -> None:
        """End a query that runs in another thread: it raises UsageError there."""
        self._connection.interrupt()

    def query(self, sql: str, parameters: Parameters = ()) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """The columns of a query, and its rows as SQLite finds them.

        Raises:
            UsageError: it is no single query, or SQLite refuses it; the rows may raise it too.
        """
        try:
            cursor = self._connection.execute(sql, parameters)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            raise _refused(error) from error
        if cursor.description is None:
            if self._connection.in_transaction:
                self._connection.rollback()
            raise UsageError("that asks for nothing", "The ledger is only read here: begin with SELECT.")
        return tuple(column[0] for column in cursor.description), _rows(cursor)

    def data_version(self) -> int:
        """A number that changes whenever somebody else has committed."""
        return int(self._one("PRAGMA data_version")[0])

    @property
    def version(self) -> str:
        """The schema version."""
        return SCHEMA

    def damage(self) -> list[str]:
        """What SQLite finds broken in the file, at most a few lines; it reads all of it, which takes a while."""
        found = [str(row[0]) for row in self._all(f"PRAGMA quick_check({_DAMAGE_SHOWN})")]
        return [] if found == ["ok"] else found

    # `Any`: what a column holds is known where the query is written.
    def _all(self, sql: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, parameters).fetchall()

    def _one(self, sql: str, parameters: Parameters = ()) -> tuple[Any, ...]:
        """The only row of a query that always has one."""
        (row,) = self._connection.execute(sql, parameters)
        found: tuple[Any, ...] = row
        return found

    @contextmanager
    def _moment(self) -> Iterator[None]:
        """All queries inside see the ledger at one moment."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("END")

    def _check(self) -> None:
        try:
            self._connection.execute("PRAGMA query_only = ON")
            found = schema_of(self._connection, self._path)
        except sqlite3.Error as error:
            raise trouble.explain(error, self._path) from error
        if found != SCHEMA:
            raise LedgerError(
                f"the ledger {self._path} has schema {found or 'none'}, this program reads {SCHEMA}",
                "Start the inboxd that is installed here once: it brings an older ledger up to date. If the ledger is "
                "newer, this program is an old one.",
            )
        self._connection.set_authorizer(_allow)


def _allow(action: int, what: str | None, argument: str | None, database: str | None, source: str | None) -> int:
    allowed = action in _ACTIONS or (action == sqlite3.SQLITE_PRAGMA and what in _PRAGMAS)
    # FTS5 declares its columns to SQLite this way when it is first used; the file itself stays read-only.
    allowed |= action == sqlite3.SQLITE_UPDATE and what == "sqlite_master"
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _rows(cursor: sqlite3.Cursor) -> Iterator[tuple[object, ...]]:
    try:
        for row in cursor:  # noqa: UP028 - `yield from` would close the cursor, after the connection perhaps
            yield row
    except sqlite3.Error as error:
        raise _refused(error) from error


def _refused(error: Exception) -> UsageError:
    return UsageError(f"SQL: {error}", "Tables and views are described in docs/ledger.md.")
