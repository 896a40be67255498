"""The reading room when its engine dies: it is built again, unless the daemon is to end meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.ledger.clerk import Clerk

from inboxd.core.retrying import RetryPolicy
from inboxd.engines.null import NullEngine
from inboxd.errors import EngineLost
from inboxd.ledger.opening import Ledger
from inboxd.model import EngineInfo, PageImage, PageState, PageText, Rendered
from inboxd.rooms.bell import Bell
from inboxd.rooms.desk import Desk
from inboxd.rooms.heartbeat import Promises
from inboxd.rooms.reading import ReadingRoom
from inboxd.rooms.vitals import Pulse

POLICY = RetryPolicy(attempts=3, first_delay_s=0, max_delay_s=0, deaths=3)
PATIENCE_S = 20.0
"""Only a test that fails waits so long."""
FOR_EVER_S = 3600.0
INKED = PageImage(np.full((4, 4, 3), 255, np.uint8), 4, 4, ink=0.05)


class Mortal(NullEngine):
    """An engine that dies of its first page, and whose every later start takes for ever, if `slow`."""

    def __init__(self, *, slow: bool) -> None:
        super().__init__()
        self._slow = slow
        self._reads = 0
        self.starts = 0
        self.is_open = False

    async def start(self) -> EngineInfo:
        self.starts += 1
        self.is_open = True  # from the first moment there is something to close
        if self.starts > 1:
            await asyncio.sleep(FOR_EVER_S if self._slow else 0)
        return await super().start()

    async def read(self, page: PageImage, attempt: int = 1) -> PageText:
        del page, attempt
        self._reads += 1
        if self._reads == 1:
            raise EngineLost("the engine died")
        return PageText("read, and survived")

    async def close(self) -> None:
        self.is_open = False
        await super().close()


class Stage:
    """A ledger with one page, which goes to a reading room as often as the desk gives it out."""

    def __init__(self, ledger: Ledger, engine: Mortal) -> None:
        self.clerk = Clerk(ledger)
        self.clerk.open()
        self.back, self.stop, self.pulse = Bell(), asyncio.Event(), Pulse()
        self.desk = Desk(ledger, self.clerk.run, POLICY, self.back, on_complete=lambda: None)
        self.room = ReadingRoom(engine, self.desk, PATIENCE_S, PATIENCE_S, self.pulse, Promises())

    async def live(self, until: Callable[[], bool]) -> None:
        """From the start of the engine to the end of the room, which is asked for as soon as a condition holds."""
        await self.room.start()
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            group.create_task(self.room.run(self.stop))
            while not until():
                if self.room.window() is not None:
                    for claim in await self.desk.claim(8):
                        self.room.offer(Rendered(claim, INKED, 0.1, time.monotonic()))
                await self.back.wait(0.01)
            self.stop.set()
            self.room.bell.ring()

    def page(self) -> tuple[str, int, int]:
        """State, attempts and deaths."""
        ((state, attempts, deaths),) = self.clerk.sql("SELECT state, attempts, deaths FROM pages")
        return state, attempts, deaths


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def pause(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the room wait so long before it builds an engine again."""
    monkeypatch.setattr("inboxd.core.blame.FIRST_PAUSE_S", seconds)
    monkeypatch.setattr("inboxd.core.blame.LONGEST_PAUSE_S", seconds)


def test_an_engine_that_died_is_built_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    pause(monkeypatch, 0.0)
    engine = Mortal(slow=False)
    stage = Stage(ledger, engine)
    asyncio.run(stage.live(until=lambda: stage.page()[0] == PageState.OK))
    assert stage.page() == (PageState.OK, 2, 1)
    assert (engine.starts, engine.is_open) == (2, False)


def test_the_end_does_not_wait_for_an_engine_that_starts_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    pause(monkeypatch, 0.0)
    engine = Mortal(slow=True)
    stage = Stage(ledger, engine)
    asyncio.run(stage.live(until=lambda: engine.starts == 2))
    assert stage.page() == (PageState.PENDING, 1, 1)
    assert not engine.is_open, "what the start had begun is still open"


def test_the_end_does_not_wait_for_the_pause_before_that(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    pause(monkeypatch, FOR_EVER_S)
    engine = Mortal(slow=False)
    stage = Stage(ledger, engine)
    asyncio.run(stage.live(until=lambda: stage.page() == (PageState.PENDING, 1, 1)))
    assert (engine.starts, engine.is_open) == (1, False)
    assert not stage.pulse.in_flight, "a dead engine has nothing in hand"
