"""A checkup of a life whose engine falls ill, against a real ledger."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from inboxd.config import Health
from inboxd.errors import Exit
from inboxd.ledger import runs
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.model import MemorySample
from inboxd.rooms import checkup, vitals
from inboxd.rooms.checkup import Checkup
from inboxd.rooms.heartbeat import Promises
from inboxd.rooms.vitals import Pulse, Vitals

GIB = 1024**3
WELL = MemorySample(0, torch_reserved=10 * GIB, torch_allocated=8 * GIB, torch_peak=10 * GIB)
ILL = replace(WELL, torch_peak=8 * GIB)
AT_ONCE = Health(samples=2, min_life=0, max_life=0, max_recycles=2)


class Ailing:
    """An engine that feels as it is told, and cannot give memory back."""

    def __init__(self) -> None:
        self.feels = WELL

    async def memory(self) -> MemorySample:
        return self.feels


class Curable(Ailing):
    """One that can; whether it helps is told too."""

    helps = True

    async def relieve(self) -> str:
        if self.helps:
            self.feels = WELL
        return "emptied the cache"


class Life:
    """A ledger, a run in it, and a checkup on an engine."""

    def __init__(
        self, folder: Path, engine: Ailing, settings: Health = AT_ONCE, recycles: int = 0, age_s: float = 60
    ) -> None:
        self.path = folder / "ledger.sqlite"
        self.ledger = Ledger.open(self.path)
        self.engine = engine
        self.ended: list[tuple[Exit, str]] = []
        now = time.time()
        for age in (7200, *[age_s] * recycles):  # one longer ago than an hour
            earlier = self.ledger.write_now(runs.start_run, version="1", pid=1, boot_id="", now=now - age - 1)
            self.ledger.write_now(runs.end_run, earlier, Exit.RECYCLE, "ill", now=now - age)
        run = self.ledger.write_now(runs.start_run, version="1", pid=1, boot_id="", now=now)
        self.checkup = Checkup(
            settings,
            Vitals(Pulse()),
            engine,  # type: ignore[arg-type]
            self.ledger,
            lambda: Reader(self.path),
            run,
            lambda code, why: self.ended.append((code, why)),
            Promises(),
        )

    def live(self, story: Callable[[Life], Awaitable[None]]) -> None:
        try:
            asyncio.run(story(self))  # type: ignore[arg-type]
        finally:
            self.ledger.close()

    def events(self) -> list[tuple[str, str]]:
        with Reader(self.path) as reader:
            told = [(row.event, row.detail) for row in reader.events()]
        return [row for row in told if row[0] in {"relieved", "exhausted", "healthy"}]


def test_every_checkup_is_a_row(tmp_path: Path) -> None:
    async def story(life: Life) -> None:
        await life.checkup.check()
        life.engine.feels = ILL
        await life.checkup.check()
        with Reader(life.path) as reader:
            _, rows = reader.query("SELECT host_rss, torch_reserved, extra FROM memory_samples ORDER BY id")
            first, second = list(rows)
        assert first[0] > 10_000_000 and first[1] == 10 * GIB
        assert [json.loads(str(row[2]))["fragmentation"] for row in (first, second)] == [0.0, 0.2]
        assert {"pages", "in_flight", "pace", "open_files"} < json.loads(str(first[2])).keys()
        assert life.ended == []

    Life(tmp_path, Ailing()).live(story)


def test_an_engine_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The promise of a sample would else be broken before the page's: the watchdog would end the daemon each time,
    and the page that hangs the engine would never be blamed for it."""

    class Hanging(Ailing):
        async def memory(self) -> MemorySample:
            return await asyncio.get_running_loop().create_future()

    async def story(life: Life) -> None:
        await life.checkup.check()
        with Reader(life.path) as reader:
            _, rows = reader.query("SELECT host_rss, torch_reserved FROM memory_samples")
            ((rss, reserved),) = rows
        assert rss > 10_000_000 and reserved is None

    assert vitals.ANSWER_S < checkup.SAMPLE_S
    monkeypatch.setattr(vitals, "ANSWER_S", 0.01)
    Life(tmp_path, Hanging()).live(story)


def test_restarts_under_a_clock_that_was_ahead_do_not_count_as_the_last_hours(tmp_path: Path) -> None:
    async def story(life: Life) -> None:
        life.engine.feels = ILL
        await life.checkup.check()
        await life.checkup.check()
        [(code, _)] = life.ended
        assert code is Exit.RECYCLE

    Life(tmp_path, Ailing(), recycles=2, age_s=-86400).live(story)


def test_illness_ends_the_life_with_its_reason(tmp_path: Path) -> None:
    async def story(life: Life) -> None:
        life.engine.feels = ILL
        await life.checkup.check()
        assert life.ended == []
        await life.checkup.check()
        [(code, why)] = life.ended
        assert code is Exit.RECYCLE and "fragmentation 20.0% of the 10.0 GiB" in why

    Life(tmp_path, Ailing(), recycles=1).live(story)


def test_relief_comes_first_and_is_remembered(tmp_path: Path) -> None:
    async def story(life: Life) -> None:
        life.engine.feels = ILL
        for _ in range(4):
            await life.checkup.check()
        assert life.ended == []
        [(event, detail)] = life.events()
        assert event == "relieved" and detail.startswith("emptied the cache: memory fragmentation")
        life.engine.helps = False  # type: ignore[attr-defined]
        life.engine.feels = ILL
        for _ in range(2):
            await life.checkup.check()
        assert [code for code, _ in life.ended] == [Exit.RECYCLE]

    Life(tmp_path, Curable()).live(story)


def test_a_restart_that_would_not_help_is_told_once_and_so_is_getting_well(tmp_path: Path) -> None:
    async def story(life: Life) -> None:
        life.engine.feels = ILL
        for _ in range(4):
            await life.checkup.check()
        assert life.ended == []
        assert "within the hour" in life.checkup.trouble
        life.engine.feels = WELL
        await life.checkup.check()
        assert life.checkup.trouble == ""
        assert [event for event, _ in life.events()] == ["exhausted", "healthy"]

    Life(tmp_path, Ailing(), recycles=2).live(story)


def test_settings_can_change_while_it_lives(tmp_path: Path) -> None:
    async def story(life: Life) -> None:
        life.engine.feels = ILL
        life.checkup.settings = Health(samples=1, min_life=0, fragmentation=0.5)
        await life.checkup.check()
        assert life.ended == []
        life.checkup.settings = Health(samples=1, min_life=0, fragmentation=0.1)
        await life.checkup.check()
        assert len(life.ended) == 1

    Life(tmp_path, Ailing()).live(story)
