"""Several engines as one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import numpy as np
import pytest

from inboxd.engines.fleet import Fleet
from inboxd.engines.null import NullEngine
from inboxd.engines.protocol import Limits
from inboxd.errors import EngineLost, EngineUnusable
from inboxd.model import EngineInfo, MemorySample, PageFailure, PageImage, PageText

PAGE = PageImage(np.zeros((2, 3, 3), np.uint8), 3, 2, ink=1.0)


@dataclass
class Held:
    """An engine that answers when told to."""

    places: int
    usable: bool = True
    open: bool = False
    reading: int = 0
    go: asyncio.Event = field(default_factory=asyncio.Event)
    dies: bool = False

    @property
    def limits(self) -> Limits:
        return Limits(pages_in_flight=self.places, batch_pages=2, batch_wait_s=0.01)

    async def start(self) -> EngineInfo:
        if not self.usable:
            raise EngineUnusable("no")
        self.open = True
        return EngineInfo("held", "none", "1", device=f"card with {self.places}")

    async def read(self, page: PageImage, attempt: int = 1) -> PageText | PageFailure:
        self.reading += 1
        await self.go.wait()
        if self.dies or not self.open:
            raise EngineLost("dead")
        return PageText(str(self.places))

    async def memory(self) -> MemorySample | None:
        return MemorySample(host_rss=10, gpu_used=self.places, kv_used=self.places / 10) if self.open else None

    async def relieve(self) -> str:
        return f"{self.places} freed"

    async def close(self) -> None:
        self.open = False
        self.go.set()


async def until_reading(engines: list[Held], total: int) -> None:
    while sum(engine.reading for engine in engines) < total:
        await asyncio.sleep(0)


def test_windows_add_up_and_the_rest_is_alike() -> None:
    fleet = Fleet([NullEngine(pages_in_flight=3), NullEngine(pages_in_flight=5)])
    assert fleet.limits.pages_in_flight == 8
    assert fleet.limits.batch_pages == 8
    assert fleet.limits.longest_edge == 1540


def test_pages_go_where_most_room_is() -> None:
    async def share() -> None:
        small, large = Held(2), Held(6)
        fleet = Fleet([small, large])
        assert (await fleet.start()).device == "card with 2, card with 6"
        reads = [asyncio.create_task(fleet.read(PAGE)) for _ in range(8)]
        await until_reading([small, large], 8)
        assert (small.reading, large.reading) == (2, 6)
        small.go.set()
        large.go.set()
        assert sorted(answer.text for answer in await asyncio.gather(*reads) if isinstance(answer, PageText)) == sorted(
            "2" * 2 + "6" * 6
        )

    asyncio.run(share())


def test_the_loss_of_one_is_the_loss_of_all() -> None:
    async def lose() -> None:
        sick, well = Held(1), Held(1, dies=False)
        fleet = Fleet([sick, well])
        await fleet.start()
        reads = [asyncio.create_task(fleet.read(PAGE)) for _ in range(2)]
        await until_reading([sick, well], 2)
        sick.dies = True
        sick.go.set()
        outcomes = await asyncio.gather(*reads, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [EngineLost, EngineLost]
        assert not well.open
        await fleet.start()
        assert sick.open and well.open

    asyncio.run(lose())


def test_one_that_cannot_start_leaves_none_running() -> None:
    async def start() -> None:
        first, second = Held(1), Held(1, usable=False)
        with pytest.raises(EngineUnusable):
            await Fleet([first, second]).start()
        assert not first.open

    asyncio.run(start())


def test_memory_adds_up_and_the_fullest_cache_counts() -> None:
    async def look() -> None:
        fleet = Fleet([Held(2), Held(6)])
        assert await fleet.memory() is None
        await fleet.start()
        sample = await fleet.memory()
        assert sample == MemorySample(host_rss=20, gpu_used=8, kv_used=0.6)
        assert await fleet.relieve() == "2 freed; 6 freed"

    asyncio.run(look())
