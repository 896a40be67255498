"""The ledger's one writing thread: verbs that queue up while it is busy share its next transaction."""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from inboxd import faults
from inboxd.errors import LedgerLost
from inboxd.ledger import trouble

log = structlog.get_logger(__name__)

T = TypeVar("T")

GROUP = 256
"""Verbs that share a transaction at most."""
GROUP_S = 0.1
"""Seconds after which a transaction takes no further verbs in."""
PAUSE_S = 0.5
"""Seconds between tries while the disk is full; a lock is waited for inside SQLite."""
PATIENCE_S = 10.0
"""Seconds for which trouble is waited out once the ledger is asked to close."""


@dataclass(frozen=True, slots=True)
class _Task:
    """A verb with its arguments, and who waits for it. `Any`: each has its own type, known to its caller."""

    call: Callable[[Connection], Any]
    future: Future[Any]


@dataclass(frozen=True, slots=True)
class _Failure:
    error: Exception


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is, whatever its name; None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


class Writer:
    """Owns the connection: a verb that was submitted has been committed once its future resolves."""

    def __init__(self, connection: Connection, path: Path) -> None:
        self._connection = connection
        raw = connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        self._raw = raw
        self._path = path
        self._file = _identity(path)
        self._wal = path.with_name(path.name + "-wal")
        self._wal_file: tuple[int, int] | None = None  # known after the first commit
        self._queue: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._gate = threading.Lock()  # between the last submit and the end of the queue
        self._closing = threading.Event()
        self._over = False  # the end of the queue was reached
        self.commits = 0
        self.verbs = 0
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[Connection], T]) -> Future[T]:
        """Queue a verb.

        Raises:
            LedgerLost: the ledger is closed.
        """
        future: Future[T] = Future()
        with self._gate:
            if self._closing.is_set():
                raise LedgerLost(f"the ledger {self._path} is closed")
            self._queue.put(_Task(call, future))
        return future

    def close(self) -> None:
        """Carry out what is queued, then end the thread. Idempotent."""
        with self._gate:
            if not self._closing.is_set():
                self._closing.set()
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over:
                task = self._queue.get()
                if task is None:
                    return
                if task.future.set_running_or_notify_cancel():
                    self._carry_out(task)
        finally:
            self._closing.set()
            while not self._queue.empty():  # only if this thread died: nobody may wait for ever
                left = self._queue.get()
                if left is not None and left.future.set_running_or_notify_cancel():
                    left.future.set_exception(LedgerLost("the ledger's thread has ended"))

    def _carry_out(self, first: _Task) -> None:
        """One transaction: `first`, and what queues up meanwhile. Begun again for as long as trouble may pass."""
        group = [first]
        try:
            outcomes = self._until_committed(group)
        except Exception as error:  # noqa: BLE001 - told to everyone in the group
            for task in group:
                task.future.set_exception(error)
            return
        for task, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, _Failure):
                task.future.set_exception(outcome.error)
            else:
                task.future.set_result(outcome)

    def _until_committed(self, group: list[_Task]) -> Sequence[object]:
        troubled_since: float | None = None
        closing_since: float | None = None
        while True:
            try:
                outcomes = self._transaction(group)
            except (sqlite3.Error, DBAPIError) as error:
                cause = trouble.cause_of(error)
                if self._raw.in_transaction:
                    self._raw.rollback()
                if not trouble.passes(cause):
                    explained = trouble.explain(cause, self._path)
                    raise LedgerLost(explained.what, explained.advice) from error
                now = time.monotonic()
                if troubled_since is None:
                    troubled_since = now
                    log.warning("ledger waits", because=str(cause), verbs=len(group))
                if self._closing.is_set():
                    closing_since = closing_since or now
                    if now - closing_since > PATIENCE_S:
                        explained = trouble.explain(cause, self._path)
                        raise LedgerLost(explained.what, explained.advice) from error
                time.sleep(PAUSE_S)  # nothing tells when a disk has room again
            else:
                if troubled_since is not None:
                    log.info("ledger goes on", waited_s=round(time.monotonic() - troubled_since, 1))
                self.commits += 1
                self.verbs += len(group)
                return outcomes

    def _transaction(self, group: list[_Task]) -> list[object]:
        """Carry `group` out, let latecomers join it, and commit."""
        self._raw.execute("BEGIN IMMEDIATE")
        outcomes = [self._verb(task) for task in group]
        until = time.monotonic() + GROUP_S
        while len(group) < GROUP and time.monotonic() < until and not self._over:
            try:
                task = self._queue.get_nowait()
            except queue.Empty:
                break
            if task is None:
                self._over = True
            elif task.future.set_running_or_notify_cancel():
                group.append(task)
                outcomes.append(self._verb(task))
        faults.point("writer.carried_out")
        self._raw.execute("COMMIT")
        faults.point("writer.committed")
        self._see_that_it_is_there()
        return outcomes

    def _see_that_it_is_there(self) -> None:
        """SQLite goes on without an error in a file that was removed, which nobody will ever find again."""
        if _identity(self._path) != self._file:
            raise LedgerLost(
                f"the ledger {self._path} was removed or replaced while it was in use",
                "Put a backup in its place. Without one the next start makes a new ledger, and reads every file in the "
                "inboxes anew; outputs that are there are known again.",
            )
        wal = _identity(self._wal)
        if self._wal_file not in (None, wal):
            with suppress(sqlite3.Error):  # this group is committed, and must not be carried out again for it
                self._raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # from the file still open, whatever its name
            raise LedgerLost(
                f"{self._wal} was removed while the ledger was in use",
                "It is no leftover: it holds the latest changes. They go into the ledger now: start the daemon again.",
            )
        self._wal_file = wal

    def _verb(self, task: _Task) -> object:
        """Carry out one verb so that, if it raises, it alone leaves no trace."""
        self._raw.execute("SAVEPOINT verb")
        try:
            result: object = task.call(self._connection)
        except Exception as error:  # handed to whoever asked, unless the whole transaction is lost
            if isinstance(error, (sqlite3.Error, DBAPIError)) and trouble.is_grave(trouble.cause_of(error)):
                raise
            self._raw.execute("ROLLBACK TO verb")
            result = _Failure(error)
        self._raw.execute("RELEASE verb")
        return result
