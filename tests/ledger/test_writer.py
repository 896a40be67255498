"""One thread writes: what queues up shares a commit, what fails fails alone, and trouble is waited out."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import structlog
from sqlalchemy import Connection, text

from inboxd.errors import LedgerLost
from inboxd.ledger import opening, runs, writer
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader

_ADD = text("INSERT INTO control (name, value, at) VALUES (:name, '', '')")


def add(conn: Connection, name: str) -> str:
    conn.execute(_ADD, {"name": name})
    return name


def fail(conn: Connection, name: str) -> None:
    conn.execute(_ADD, {"name": name})
    raise ZeroDivisionError(name)


def names(path: Path) -> set[str]:
    with Reader(path) as reader:
        return {str(row[0]) for row in reader.query("SELECT name FROM control")[1]}


@contextmanager
def held(ledger: Ledger) -> Iterator[None]:
    """Verbs that are submitted inside queue up behind one that waits."""
    begun, go = threading.Event(), threading.Event()

    def wait(conn: Connection) -> None:
        begun.set()
        assert go.wait(60)

    thread = threading.Thread(target=ledger.write_now, args=(wait,))
    thread.start()
    assert begun.wait(60)
    try:
        yield
    finally:
        go.set()
        thread.join()


@contextmanager
def quick(monkeypatch: pytest.MonkeyPatch, path: Path) -> Iterator[Ledger]:
    """A ledger that looks up soon when it is locked out."""
    monkeypatch.setattr(opening, "BUSY_MS", 10)
    monkeypatch.setattr(writer, "PAUSE_S", 0.01)
    monkeypatch.setattr(writer, "PATIENCE_S", 0.05)
    with Ledger.open(path) as ledger:
        yield ledger


def test_many_writes_share_few_commits(ledger: Ledger) -> None:
    async def write_all() -> list[str]:
        with held(ledger):
            tasks = [asyncio.create_task(ledger.write(add, f"{number}")) for number in range(500)]
            while ledger._writer._queue.qsize() < 500:
                await asyncio.sleep(0)
        return await asyncio.gather(*tasks)

    before = ledger.commits
    assert asyncio.run(write_all()) == [f"{number}" for number in range(500)]
    assert ledger.verbs >= 500
    assert ledger.commits - before <= 20
    assert len(names(ledger.path)) == 500


def test_a_write_is_on_disk_when_it_returns(ledger: Ledger) -> None:
    with Reader(ledger.path) as reader:
        before = reader.data_version()
        ledger.write_now(add, "seen")
        assert reader.data_version() != before
    assert names(ledger.path) == {"seen"}


def test_a_verb_that_raises_fails_alone(ledger: Ledger) -> None:
    async def write_all() -> list[object]:
        with held(ledger):
            writes = [ledger.write(add, "a"), ledger.write(fail, "b"), ledger.write(add, "a"), ledger.write(add, "c")]
            tasks = [asyncio.ensure_future(write) for write in writes]
            while ledger._writer._queue.qsize() < 4:
                await asyncio.sleep(0)
        return await asyncio.gather(*tasks, return_exceptions=True)

    a, b, again, c = asyncio.run(write_all())
    assert (a, c) == ("a", "c")
    assert isinstance(b, ZeroDivisionError)
    assert "UNIQUE" in str(again)
    assert names(ledger.path) == {"a", "c"}


def test_a_write_cancelled_before_its_turn_is_not_made(ledger: Ledger) -> None:
    async def write_and_cancel() -> None:
        with held(ledger):
            task = asyncio.create_task(ledger.write(add, "never"))
            while not ledger._writer._queue.qsize():
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(write_and_cancel())
    ledger.write_now(add, "later")
    assert names(ledger.path) == {"later"}


def test_closing_carries_out_what_is_queued(path: Path) -> None:
    ledger = Ledger.open(path)
    with held(ledger):
        threads = [threading.Thread(target=ledger.write_now, args=(add, f"{number}")) for number in range(20)]
        for thread in threads:
            thread.start()
        while ledger._writer._queue.qsize() < 20:
            pass
        closing_it = threading.Thread(target=ledger.close)
        closing_it.start()
    closing_it.join()
    for thread in threads:
        thread.join()
    assert len(names(path)) == 20


def test_a_locked_ledger_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program holds the ledger: every write is delayed, none is lost or doubled, one line says so."""
    with (
        structlog.testing.capture_logs() as logs,
        quick(monkeypatch, path) as ledger,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN EXCLUSIVE")

        async def write_all() -> list[str]:
            tasks = [asyncio.create_task(ledger.write(add, f"{number}")) for number in range(20)]
            while not logs:  # it has noticed
                await asyncio.sleep(0.01)
            assert not any(task.done() for task in tasks)
            other.execute("COMMIT")
            return await asyncio.gather(*tasks)

        assert len(asyncio.run(write_all())) == 20
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("ledger waits", "warning"),
        ("ledger goes on", "info"),
    ]
    assert len(names(path)) == 20


def test_a_locked_ledger_does_not_keep_the_daemon_from_ending(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[LedgerLost] = []

    def write(ledger: Ledger) -> None:
        try:
            ledger.write_now(add, "never")
        except LedgerLost as error:
            caught.append(error)

    with (
        structlog.testing.capture_logs() as logs,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        quick(monkeypatch, path) as ledger,
    ):
        other.execute("BEGIN EXCLUSIVE")
        thread = threading.Thread(target=write, args=(ledger,))
        thread.start()
        while not logs:
            time.sleep(0.01)
        ledger.close()
        thread.join()
        other.execute("COMMIT")
    assert "locked by another program" in str(caught[0])
    assert names(path) == set()


def test_readers_do_not_wait_for_a_writer(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO control VALUES ('x', '', '')")
        assert names(path) == set()
        other.execute("ROLLBACK")


def test_damage_met_while_writing_is_told_to_everyone(path: Path) -> None:
    ledger = Ledger.open(path)

    def corrupt(conn: Connection) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    with pytest.raises(LedgerLost, match="damaged") as caught:
        ledger.write_now(corrupt)
    assert ".recover" in caught.value.advice
    ledger.write_now(add, "still works where it can")
    ledger.close()


@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_a_ledger_that_is_gone_is_not_written_to_as_if_it_were_there(path: Path, what: str) -> None:
    """SQLite would go on without an error, in a file that nobody can find any more."""
    ledger = Ledger.open(path)
    ledger.write_now(add, "before")
    for end in ("", "-wal", "-shm"):
        path.with_name(path.name + end).unlink()
    if what == "replaced":
        Ledger.open(path).close()
    with pytest.raises(LedgerLost, match="removed or replaced while it was in use") as caught:
        ledger.write_now(add, "after")
    assert "backup" in caught.value.advice
    ledger.close()
    assert path.exists() == (what == "replaced")
    if what == "replaced":
        assert names(path) == set()


def test_a_write_ahead_log_that_is_removed_costs_nothing(path: Path) -> None:
    """What it held would else be gone with the next power cut, and readers would not see it."""
    ledger = Ledger.open(path)
    ledger.write_now(add, "before")
    path.with_name(path.name + "-wal").unlink()
    with pytest.raises(LedgerLost, match="-wal was removed while the ledger was in use"):
        ledger.write_now(add, "after")
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert {"before", "after"} <= {name for (name,) in copy.execute("SELECT name FROM control")}
    ledger.close()
    assert {"before", "after"} <= names(path)


MOUNTS = (
    os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0
)


@pytest.mark.skipif(not MOUNTS, reason="needs to mount a small disk")
def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    """In a namespace of its own, on a small disk that somebody fills and empties again."""
    script = Path(__file__).with_name("full_disk.py")
    run = subprocess.run(
        ["unshare", "-m", sys.executable, script, tmp_path], check=False, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "written: 200, waited: True" in run.stdout


def test_two_processes_write_at_once(path: Path) -> None:
    script = Path(__file__).with_name("write_for_ever.py")
    with (
        Ledger.open(path) as ledger,
        subprocess.Popen([sys.executable, script, path, "other"], stdout=subprocess.PIPE, text=True) as other,
    ):
        assert other.stdout is not None
        acknowledged = {other.stdout.readline().strip()}
        for number in range(50):
            acknowledged.add(ledger.write_now(add, f"ours.{number}"))
            acknowledged.add(other.stdout.readline().strip())
        other.kill()
    assert len(acknowledged) == 101
    assert acknowledged <= names(path)


def test_killed_while_writing_loses_nothing_that_was_acknowledged(path: Path) -> None:
    script = Path(__file__).with_name("write_for_ever.py")
    acknowledged: set[str] = set()
    for life in range(5):
        with subprocess.Popen([sys.executable, script, path, str(life)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                acknowledged.add(line.strip())
                if len(acknowledged) >= (life + 1) * 60:
                    process.send_signal(signal.SIGKILL)
                    break
            acknowledged |= {line.strip() for line in process.stdout if line.endswith("\n")}
        with Ledger.open(path) as ledger:
            assert not ledger.write_now(runs.paused)
        with Reader(path) as reader:
            assert reader.damage() == []
        assert acknowledged <= names(path)
    assert len(acknowledged) >= 300
