"""The opening room with real renderers: what happens to a file while its opening waits in line is nobody's blame."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.ledger.clerk import Clerk
from tests.rooms.render.hostile import children, numbered

from inboxd import config
from inboxd.core.lifecycle import FileState
from inboxd.core.retrying import RetryPolicy
from inboxd.ledger import arrivals, claims, runs, strays
from inboxd.ledger.opening import Ledger
from inboxd.model import Arrival, Entry, FileId, Kind, Opened, Refused, Sighting, Signature
from inboxd.rooms.bell import Bell
from inboxd.rooms.desk import Desk
from inboxd.rooms.opening import OpeningRoom
from inboxd.rooms.render.pool import RenderPool
from inboxd.rooms.render.process import DEPTH
from inboxd.rooms.spool import Spool

POLICY = RetryPolicy(attempts=3, first_delay_s=0, max_delay_s=0, deaths=3)
PAGES = 2


class Pool(RenderPool):
    """Counts how many documents wait to be opened, or were; one of them may hang."""

    asked = 0
    hanging: Path | None = None

    async def open(self, path: Path, kind: Kind) -> Opened | Refused:
        self.asked += 1
        if path == self.hanging:
            await asyncio.Event().wait()
        return await super().open(path, kind)


class Stage:
    """A ledger, a spool, and one renderer that can be made to stand still."""

    def __init__(self, ledger: Ledger, root: Path) -> None:
        self.clerk = Clerk(ledger)
        self.spool = Spool(root / "spool")
        self.pool = Pool(config.Render(), 1, 400, 1)

    def drop(self, name: bytes) -> FileId:
        """A file of two pages, taken in."""
        content = numbered(PAGES) + b"%" + name
        sha256 = hashlib.sha256(content).hexdigest()
        copy = self.spool.path(sha256)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)
        signature = Signature(len(content), 1, 1, 1)
        sighting = Sighting(self.clerk.inbox, name, Entry.FILE, signature)
        (tracked,) = self.clerk.do(arrivals.record, [sighting])
        self.clerk.do(arrivals.accept, Arrival(tracked.file, signature, Kind.PDF, sha256, copy))
        return tracked.file

    def copy_of(self, file: FileId) -> Path:
        ((sha256,),) = self.clerk.sql("SELECT sha256 FROM files WHERE id = ?", file)
        return self.spool.path(sha256)

    def desk(self) -> Desk:
        return Desk(self.clerk.ledger, self.clerk.run, POLICY, Bell(), on_complete=lambda: None)

    @asynccontextmanager
    async def opening(self) -> AsyncIterator[Callable[[], None]]:
        """The room at work, its renderer at a standstill until the function given is called."""
        await self.pool.start()
        (renderer,) = children()
        os.kill(renderer, signal.SIGSTOP)
        nobody = lambda: None  # noqa: E731
        clerk = self.clerk
        room = OpeningRoom(
            clerk.ledger, clerk.run, self.spool, self.pool, POLICY, 1, lambda: 100, on_opened=nobody, on_complete=nobody
        )
        stop = asyncio.Event()
        running = asyncio.create_task(room.run(stop))
        try:
            yield lambda: os.kill(renderer, signal.SIGCONT)
        finally:
            stop.set()
            room.bell.ring()
            await running
            await self.pool.close()

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.01)
        assert condition(), what


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        yield Stage(ledger, tmp_path)


def test_no_page_goes_out_before_its_file_is_open_in_this_life(stage: Stage) -> None:
    """A file of which an earlier life left a page: read at once, it could be done, and its spool copy cleared away,
    while its opening still waited; and the opening then failed."""
    clerk = stage.clerk
    file = stage.drop(b"left.pdf")
    clerk.claim()
    clerk.do(claims.opened, file, PAGES)
    clerk.finish(clerk.claim_pages(1)[0])
    clerk.start_run()
    clerk.do(strays.release_strays, clerk.run)

    async def life() -> None:
        desk = stage.desk()
        async with stage.opening() as go_on:
            await stage.until(lambda: stage.pool.asked == 1, "its opening to wait")
            assert await desk.claim(100) == []
            go_on()
            await stage.until(lambda: "opened" in clerk.history(file)[-1:], "it to be open")
            assert [claim.number for claim in await desk.claim(100)] == [2]

    asyncio.run(life())


def test_a_copy_that_goes_while_its_opening_waits_in_line_is_not_the_files_fault(stage: Stage) -> None:
    clerk = stage.clerk
    files = [stage.drop(b"%d.pdf" % number) for number in range(DEPTH + 1)]  # one more than the renderer has in hand

    async def life() -> None:
        async with stage.opening() as go_on:
            await stage.until(lambda: stage.pool.asked == len(files), "all to wait")
            for file in files:
                stage.copy_of(file).unlink()
            go_on()
            decided = {"opened", "resettled", "quarantined"}
            await stage.until(lambda: all(clerk.history(file)[-1] in decided for file in files), "decisions")

    asyncio.run(life())
    assert sorted(clerk.history(file)[-1] for file in files) == ["opened"] * DEPTH + ["resettled"]
    assert sorted(clerk.state(file) for file in files) == [FileState.READING] * DEPTH + [FileState.SETTLING]


def test_a_document_that_hangs_keeps_no_other_from_being_opened(stage: Stage) -> None:
    clerk = stage.clerk
    hanging = stage.drop(b"hangs.pdf")
    stage.pool.hanging = stage.copy_of(hanging)
    others = [stage.drop(b"%d.pdf" % number) for number in range(40)]  # several times what is opened at once

    def are_open() -> bool:
        return clerk.sql("SELECT count(*) FROM files WHERE pages IS NOT NULL") == [(len(others),)]

    async def life() -> None:
        async with stage.opening() as go_on:
            go_on()
            await stage.until(are_open, "the others to be open")
            others.append(stage.drop(b"late.pdf"))
            await stage.until(are_open, "one that came later to be open")
            assert clerk.history(hanging)[-1] == "claimed"

    asyncio.run(life())
    clerk.do(runs.end_run, clerk.run, 0, "")
    assert clerk.sql("SELECT state, attempts FROM files WHERE id = ?", hanging) == [("ready", 0)]
