"""Several engines as one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pytest
from tests.engines.conformance import Conformance

from inboxd.core.retrying import RetryPolicy
from inboxd.engines import fleet as fleets
from inboxd.engines.fleet import Fleet
from inboxd.engines.null import NullEngine
from inboxd.engines.protocol import Engine, Limits, Several
from inboxd.errors import EngineLost, EngineUnusable
from inboxd.model import EngineInfo, MemorySample, PageFailure, PageImage, PageText
from inboxd.rooms import reading

PAGE = PageImage(np.zeros((2, 3, 3), np.uint8), 3, 2, ink=1.0)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "AGAIN", RetryPolicy(attempts=3, first_delay_s=0.0, max_delay_s=0.0, deaths=3))


@dataclass
class Held:
    """An engine that answers when told to."""

    places: int
    usable: bool = True
    open: bool = False
    reading: int = 0
    starts: int = 0
    go: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def limits(self) -> Limits:
        return Limits(pages_in_flight=self.places, batch_pages=2, batch_wait_s=0.01)

    async def start(self) -> EngineInfo:
        self.starts += 1
        await asyncio.sleep(0)
        if not self.usable:
            raise EngineUnusable("no such card")
        self.open = True
        self.go = asyncio.Event()
        return EngineInfo("held", "none", "1", device=f"card with {self.places}")

    async def read(self, page: PageImage, attempt: int = 1) -> PageText | PageFailure:
        self.reading += 1
        try:
            await self.go.wait()
        finally:
            self.reading -= 1
        if not self.open:
            raise EngineLost("it fell over")
        return PageText(str(self.places))

    async def memory(self) -> MemorySample | None:
        return MemorySample(gpu_used=self.places, kv_used=self.places / 10) if self.open else None

    async def relieve(self) -> str:
        return f"{self.places} freed"

    async def close(self) -> None:
        self.die()

    def die(self) -> None:
        self.open = False
        self.go.set()


def fleet_of(*engines: Engine, page_timeout: float = 60.0, absent: Iterable[str] = ()) -> Fleet:
    return Fleet({f"GPU {n}": engine for n, engine in enumerate(engines)}, page_timeout, tuple(absent))


def reads(fleet: Fleet, count: int) -> list[asyncio.Task[PageText | PageFailure]]:
    return [asyncio.create_task(fleet.read(PAGE)) for _ in range(count)]


async def until_reading(engines: list[Held], total: int) -> None:
    while sum(engine.reading for engine in engines) < total:
        await asyncio.sleep(0)


async def until_whole(fleet: Fleet) -> None:
    while fleet.missing:
        await asyncio.sleep(0)


class TestConformance(Conformance):
    """A fleet is an engine like any other."""

    reads = False

    @staticmethod
    def make() -> Engine:
        return fleet_of(NullEngine(0.01, pages_in_flight=3), NullEngine(0.01, pages_in_flight=5))


def test_windows_add_up_and_the_rest_is_alike() -> None:
    fleet = fleet_of(NullEngine(pages_in_flight=3), NullEngine(pages_in_flight=5))
    assert fleet.limits.pages_in_flight == 8
    assert fleet.limits.batch_pages == 8
    assert fleet.limits.longest_edge == 1540
    assert isinstance(fleet, Several)


def test_pages_go_where_most_room_is() -> None:
    async def share() -> None:
        small, large = Held(2), Held(6)
        fleet = fleet_of(small, large)
        assert (await fleet.start()).device == "card with 2, card with 6"
        under_way = reads(fleet, 8)
        await until_reading([small, large], 8)
        assert (small.reading, large.reading) == (2, 6)
        small.go.set()
        large.go.set()
        answers = await asyncio.gather(*under_way)
        assert sorted(answer.text for answer in answers if isinstance(answer, PageText)) == ["2"] * 2 + ["6"] * 6

    asyncio.run(share())


def test_a_lost_engine_takes_only_its_own_pages_along_and_comes_back() -> None:
    async def lose() -> None:
        sick, well = Held(2), Held(3)
        fleet = fleet_of(sick, well)
        await fleet.start()
        under_way = reads(fleet, 5)
        await until_reading([sick, well], 5)
        sick.usable = False
        sick.die()
        while sick.starts < 3:  # it tries again and again
            await asyncio.sleep(0)
        assert fleet.limits.pages_in_flight == 3
        assert fleet.missing == "1 of 2 engines: GPU 0: no such card"
        assert (await fleet.memory()) == MemorySample(gpu_used=3, kv_used=0.3)
        well.go.set()
        outcomes = await asyncio.gather(*under_way)
        died = PageFailure("the engine on GPU 0 was lost: it fell over", died=True)
        assert [outcome for outcome in outcomes if outcome == died] == [died] * 2
        assert [outcome for outcome in outcomes if outcome == PageText("3")] == [PageText("3")] * 3
        sick.usable = True
        await until_whole(fleet)
        assert fleet.limits.pages_in_flight == 5
        well.go.clear()
        under_way = reads(fleet, 5)
        await until_reading([sick, well], 5)
        assert (sick.reading, well.reading) == (2, 3)
        await fleet.close()

    asyncio.run(lose())


def test_one_that_keeps_dying_is_left_alone() -> None:
    async def die() -> None:
        sick, well = Held(9), Held(1)
        fleet = fleet_of(sick, well)
        await fleet.start()
        for _ in range(fleets.AGAIN.deaths):
            await until_whole(fleet)
            (page,) = reads(fleet, 1)
            await until_reading([sick], 1)
            sick.die()
            assert isinstance(await page, PageFailure)
        while "left alone" not in fleet.missing:
            await asyncio.sleep(0)
        assert fleet.missing.startswith("1 of 2 engines: GPU 0: it died 3 times in a row")
        well.go.set()
        assert await fleet.read(PAGE) == PageText("1")
        assert sick.starts == 3
        await fleet.close()

    asyncio.run(die())


def test_one_that_hangs_is_lost_and_the_others_read_on() -> None:
    async def hang() -> None:
        mute, well = Held(9), Held(2)
        fleet = fleet_of(mute, well, page_timeout=0.05)
        await fleet.start()
        well.go.set()
        mute.usable = False
        outcome = await fleet.read(PAGE)
        assert isinstance(outcome, PageFailure) and outcome.died and "did not answer" in outcome.reason
        while mute.starts < 2:
            await asyncio.sleep(0)
        assert not mute.open
        assert await fleet.read(PAGE) == PageText("2")
        await fleet.close()

    asyncio.run(hang())


def test_the_fleet_is_lost_with_its_last_engine_and_starts_anew() -> None:
    async def lose() -> None:
        first, second = Held(1), Held(1)
        fleet = fleet_of(first, second)
        await fleet.start()
        under_way = reads(fleet, 2)
        await until_reading([first, second], 2)
        first.usable = second.usable = False
        first.die()
        second.die()
        outcomes = await asyncio.gather(*under_way, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] in ([PageFailure, EngineLost], [EngineLost, EngineLost])
        with pytest.raises(EngineLost, match=r"0 of 2 engines: GPU 0: .*; GPU 1: it fell over"):
            await fleet.read(PAGE)
        await fleet.close()
        with pytest.raises(EngineUnusable, match="no such card"):
            await fleet.start()
        first.usable = second.usable = True
        await fleet.start()
        assert first.open and second.open and not fleet.missing
        await fleet.close()

    asyncio.run(lose())


def test_it_starts_with_those_that_can_and_takes_the_others_in_later() -> None:
    async def start() -> None:
        well, late = Held(1), Held(4, usable=False)
        fleet = fleet_of(well, late, absent=["GPU 7: GPU is lost"])
        assert (await fleet.start()).device == "card with 1"
        assert fleet.limits.pages_in_flight == 1
        assert fleet.missing == "1 of 3 engines: GPU 1: no such card; GPU 7: GPU is lost"
        late.usable = True
        while not late.open:
            await asyncio.sleep(0)
        while fleet.missing != "2 of 3 engines: GPU 7: GPU is lost":
            await asyncio.sleep(0)
        assert fleet.limits.pages_in_flight == 5
        await fleet.close()

    asyncio.run(start())


def test_none_that_can_start_leaves_none_running() -> None:
    async def start() -> None:
        first, second = Held(1, usable=False), Held(1, usable=False)
        fleet = fleet_of(first, second)
        with pytest.raises(EngineUnusable):
            await fleet.start()
        assert (first.starts, second.starts) == (1, 1)
        await asyncio.sleep(0.01)
        assert (first.starts, second.starts) == (1, 1)

    asyncio.run(start())


def test_a_defect_in_a_rebuild_is_told_and_tried_again() -> None:
    class Odd(Held):
        async def start(self) -> EngineInfo:
            if self.starts == 1:
                self.starts += 1
                raise ZeroDivisionError("who would have thought")
            return await super().start()

    async def lose() -> None:
        odd, well = Odd(2), Held(1)
        fleet = fleet_of(odd, well)
        await fleet.start()
        (page,) = reads(fleet, 1)
        await until_reading([odd], 1)
        odd.die()
        assert isinstance(await page, PageFailure)
        while "ZeroDivisionError('who would have thought')" not in fleet.missing:
            await asyncio.sleep(0)
        await until_whole(fleet)
        await fleet.close()

    asyncio.run(lose())


def test_one_that_hangs_keeps_no_sample_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mute(Held):
        async def memory(self) -> MemorySample | None:
            await asyncio.Event().wait()
            return None

    async def look() -> None:
        fleet = fleet_of(Mute(2), Held(6))
        await fleet.start()
        assert await fleet.memory() == MemorySample(gpu_used=6, kv_used=0.6)
        await fleet.close()

    monkeypatch.setattr(fleets, "SAMPLE_S", 0.05)
    asyncio.run(look())


def test_one_whose_start_hangs_keeps_the_others_from_reading_no_longer_than_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Less than the reading room promises the watchdog: else each life would be ended before it reads a page."""

    class Stuck(Held):
        async def start(self) -> EngineInfo:
            await asyncio.Event().wait()
            raise AssertionError

    async def live() -> None:
        stuck, well = Stuck(2), Held(6)
        fleet = fleet_of(stuck, well)
        assert (await fleet.start()).device == "card with 6"
        assert "it did not start within" in fleet.missing
        well.go.set()
        assert await fleet.read(PAGE) == PageText("6")
        await fleet.close()

    assert fleets.START_S < reading.START_S
    monkeypatch.setattr(fleets, "START_S", 0.05)
    asyncio.run(live())


def test_memory_adds_up_and_the_fullest_cache_counts() -> None:
    async def look() -> None:
        fleet = fleet_of(Held(2), Held(6))
        assert await fleet.memory() is None
        await fleet.start()
        sample = await fleet.memory()
        assert sample == MemorySample(gpu_used=8, kv_used=0.6)
        assert await fleet.relieve() == "2 freed; 6 freed"

    asyncio.run(look())
