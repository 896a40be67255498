"""Kills a process that writes to the ledger given, again and again, and looks at what is left each time.

`python power_loss.py PATH KILLS SEED`: the writer does what the rooms do, eight verbs at once, and says what was
acknowledged. It is forked from this process, so that a life costs milliseconds. Prints how much was acknowledged;
raises AssertionError where something is wrong with what is left.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import random
import select
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from inboxd.ledger import arrivals, claims, deliveries, runs, strays
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.model import (
    Arrival,
    Entry,
    FileId,
    InboxId,
    Kind,
    PageClaim,
    PageReading,
    PageState,
    RunId,
    Sighting,
    Signature,
    Written,
)

LANES = 8
PAGES = 3
LONGEST_S = 0.3

HALF_DONE = {
    "a file without its arrival in the history": """
        SELECT path FROM files f WHERE (SELECT count(*) FROM events WHERE file = f.id AND event = 'seen') <> 1""",
    "a file beyond settling without a hash, or without a word of it in the history": """
        SELECT path FROM files f WHERE state <> 'settling'
            AND (sha256 IS NULL OR (SELECT count(*) FROM events WHERE file = f.id AND event = 'ready') <> 1)""",
    "an attempt that the history doesn't know": """
        SELECT path FROM files f WHERE attempts <>
            (SELECT coalesce(sum(event = 'claimed') - sum(event = 'released'), 0) FROM events WHERE file = f.id)""",
    "an open file without all of its pages": """
        SELECT path FROM files f WHERE pages IS NOT NULL
            AND pages <> (SELECT count(*) FROM pages WHERE file = f.id)""",
    "a page in flight of a file that nobody reads": """
        SELECT number FROM pages p JOIN files f ON f.id = p.file
        WHERE p.state = 'in_flight' AND f.state <> 'reading'""",
    "a page with a last word that says nothing": """
        SELECT number FROM pages WHERE (state = 'ok') <> (finished IS NOT NULL AND text <> '')""",
    "a file whose outputs are owed or written before its pages are read, or the other way round": """
        SELECT path FROM files f WHERE (state = 'reading' AND delivery = 'owed' OR state = 'done') <>
            (pages IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pages WHERE file = f.id AND state <> 'ok'))""",
    "a file that is done without its output, or the other way round": """
        SELECT path FROM files f WHERE (state = 'done') <> EXISTS (SELECT 1 FROM outputs WHERE file = f.id)""",
    "a life that began twice": "SELECT id FROM runs WHERE ended IS NULL AND id <> (SELECT max(id) FROM runs)",
}


class Author:
    """One life under load."""

    def __init__(self, ledger: Ledger, life: int, said: int) -> None:
        self._ledger = ledger
        self._life = life
        self._said = said
        self._numbers = itertools.count(1)

    async def write_for_ever(self) -> None:
        ledger, now = self._ledger, time.time
        inbox = await ledger.write(runs.inbox, b"/srv/scans", now=now())
        run = await ledger.write(runs.start_run, version="0", pid=os.getpid(), boot_id="boot", now=now())
        self._acknowledged("runs", run)
        await ledger.write(strays.release_strays, run, now=now())
        async with asyncio.TaskGroup() as group:
            for _ in range(LANES):
                group.create_task(self._lane(inbox, run))

    async def _lane(self, inbox: InboxId, run: RunId) -> None:
        while True:
            await self._take_in(inbox)
            for file in await self._ledger.write(claims.claim_files, 1, run, now=time.time()):
                await self._ledger.write(claims.opened, file.file, PAGES, now=time.time())
                self._acknowledged("opened", file.file)
            await self._read(run, await self._ledger.write(claims.claim_pages, PAGES + 1, run, now=time.time()))
            for due in await self._ledger.write(deliveries.owed, 2, now=time.time()):
                done = due.file
                content = hashlib.sha256(b"%d" % done).hexdigest()
                output = Written(b"/srv/scans/%d.md" % done, "md", content, 100)
                await self._ledger.write(deliveries.delivered, done, [output], now=time.time())
                self._acknowledged("done", done)

    async def _take_in(self, inbox: InboxId) -> None:
        name = f"{self._life}/{next(self._numbers)}.pdf"
        signature = Signature(1000, 1, 1, 1)
        sighting = Sighting(inbox, name.encode(), Entry.FILE, signature)
        (tracked,) = await self._ledger.write(arrivals.record, [sighting], now=time.time())
        self._acknowledged("seen", tracked.file)
        content = hashlib.sha256(name.encode()).hexdigest()
        arrival = Arrival(tracked.file, signature, Kind.PDF, content, Path("spool"))
        await self._ledger.write(arrivals.accept, arrival, now=time.time())
        self._acknowledged("ready", tracked.file)

    async def _read(self, run: RunId, pages: list[PageClaim]) -> None:
        if not pages:
            return
        batch = await self._ledger.write(claims.admit, run, "null", [page.page for page in pages], now=time.time())
        for page in pages:
            text = f"page {page.number} of file {page.file} " * 20
            reading = PageReading(page.number, PageState.OK, "", text, 100, 140, "null", "none", page.attempt, 0.1)
            await self._ledger.write(claims.finish_page, page.page, reading, batch=batch, now=time.time())
            self._acknowledged("read", page.page)

    def _acknowledged(self, what: str, number: FileId | int) -> None:
        os.write(self._said, f"{what} {number}\n".encode())


def killed(path: Path, life: int, after: float) -> Iterator[tuple[str, int]]:
    """A writer's life until it is killed, and what was acknowledged to it.

    Every other one is killed `after` some seconds, maybe while it opens the ledger; the others that long after the
    first verb was acknowledged.
    """
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(heard)
        asyncio.run(Author(Ledger.open(path), life, said).write_for_ever())
        os._exit(1)
    os.close(said)
    try:
        if life % 2:
            select.select([heard], [], [], 60)
        time.sleep(after)
    finally:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), "it ended by itself"
    with os.fdopen(heard) as lines:
        for line in lines:
            if line.endswith("\n"):
                what, _, number = line.partition(" ")
                yield what, int(number)


THERE = {
    "runs": "SELECT id FROM runs",
    "seen": "SELECT id FROM files",
    "ready": "SELECT id FROM files WHERE state <> 'settling'",
    "opened": "SELECT id FROM files WHERE pages IS NOT NULL OR EXISTS (SELECT 1 FROM pages WHERE file = files.id)",
    "read": "SELECT id FROM pages WHERE state = 'ok'",
    "done": "SELECT id FROM files WHERE state = 'done'",
}


def look(path: Path, acknowledged: dict[str, set[int]]) -> None:
    """What a killed writer left is whole, and has all that was acknowledged."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        if not acknowledged and not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
            return  # killed while it was made
        for what, query in HALF_DONE.items():
            assert not (found := connection.execute(query).fetchall()), f"{what}: {found[:3]}"
        for what, query in THERE.items():
            lost = acknowledged.get(what, set()) - {number for (number,) in connection.execute(query)}
            assert not lost, f"acknowledged as {what}, and lost: {sorted(lost)[:5]}"


def main(path: Path, kills: int, seed: int) -> None:
    Ledger.open(path.with_name("another.sqlite")).close()  # so that all that it loads is loaded before the forks
    chance = random.Random(seed)
    acknowledged: dict[str, set[int]] = {}
    for life in range(kills):
        for what, number in killed(path, life, chance.uniform(0, LONGEST_S)):
            acknowledged.setdefault(what, set()).add(number)
        look(path, acknowledged)
    with Reader(path) as reader:
        assert not (damage := reader.damage()), damage
    print(json.dumps({what: len(numbers) for what, numbers in acknowledged.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
