"""The chores: what has to be done by the clock, whatever the rooms are doing. APScheduler keeps the times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from inboxd.config import Settings
from inboxd.errors import Exit
from inboxd.ledger import runs, strays, upkeep
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.rooms.inbox import InboxRoom
from inboxd.rooms.spool import Spool

log = structlog.get_logger(__name__)

Chore = Callable[[], Coroutine[None, None, None]]

NOTICE_S = 1.0
"""Seconds between looks for what somebody asked of the ledger from the command line."""
TIDY_S = 5.0
"""Seconds between clearings of the spool: copies of files that are done, quarantined or gone."""
CLOCK_S = 1.0
"""Seconds between looks at the clock."""
SET_BACK_S = 1.0
"""Seconds that the clock must lose between two looks to have been set back: less is how clocks are kept right."""
PRUNE_S = 300.0
"""Seconds from the start of a life to its first pruning; the others are a day apart."""
DAY_S = 86_400.0


class Chores:
    """Takes the health samples, prunes the ledger once a day, and notices what other processes ask for."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        reader: Callable[[], Reader],
        inbox: InboxRoom,
        spool: Spool,
        checkup: Chore,
        end: Callable[[Exit, str], None],
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._open_reader = reader
        self._inbox = inbox
        self._spool = spool
        self._checkup = checkup
        self._end = end
        self._asked: dict[str, str | None] | None = None
        self._scheduler = AsyncIOScheduler()
        self._under_way: dict[Chore, asyncio.Task[None]] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the times until `stop`; what a chore raises, this raises."""
        await self.notice()
        times = {
            self.notice: NOTICE_S,
            self.tidy: TIDY_S,
            self.prune: DAY_S,
            self._checkup: self._settings.health.interval,
        }
        async with asyncio.TaskGroup() as group:
            clock = group.create_task(self._watch_the_clock())
            for chore, seconds in times.items():
                self._scheduler.add_job(
                    self._begin,
                    "interval",
                    (group, chore),
                    seconds=seconds,
                    id=chore.__name__,
                    coalesce=True,
                    misfire_grace_time=None,
                )
            # A machine that is off at night would else never come to it.
            soon = datetime.now(UTC) + timedelta(seconds=PRUNE_S)
            self._scheduler.modify_job(self.prune.__name__, next_run_time=soon)
            self._scheduler.start()
            try:
                await stop.wait()
            finally:
                self._scheduler.shutdown(wait=False)
                for task in (clock, *self._under_way.values()):
                    task.cancel()

    async def _begin(self, group: asyncio.TaskGroup, chore: Chore) -> None:
        """Begin a chore, unless it is still at it. In our own group: the scheduler would only log what it raises."""
        if chore not in self._under_way:
            self._under_way[chore] = task = group.create_task(chore(), name=chore.__name__)
            task.add_done_callback(lambda _: self._under_way.pop(chore))

    async def _watch_the_clock(self) -> None:
        """The scheduler and the ledger name times of day: where the clock is set back, what was due soon is due now."""
        ahead = time.time() - time.monotonic()
        while True:
            await asyncio.sleep(CLOCK_S)
            before, ahead = ahead, time.time() - time.monotonic()
            if before - ahead > SET_BACK_S:
                log.warning("the clock was set back", seconds=round(before - ahead))
                await self._ledger.write(strays.try_at_once, now=time.time())
                for job in self._scheduler.get_jobs():
                    job.modify(next_run_time=datetime.now(UTC))

    def reload(self, settings: Settings) -> None:
        """Go by these settings from now on."""
        if settings.health.interval != self._settings.health.interval:
            job = self._checkup.__name__
            self._scheduler.reschedule_job(job, trigger="interval", seconds=settings.health.interval)
        self._settings = settings

    async def notice(self) -> None:
        """A requeue puts files back to settling, and a scan takes them up; a recycle ends this life."""
        asked = await asyncio.to_thread(self._look)
        if self._asked is not None:
            if asked[runs.REQUEUED] != self._asked[runs.REQUEUED]:
                self._inbox.rescan(None)
            if asked[upkeep.RECYCLE] != self._asked[upkeep.RECYCLE]:
                self._end(Exit.RECYCLE, f"asked for by {asked[upkeep.RECYCLE]}")
        self._asked = asked

    def _look(self) -> dict[str, str | None]:
        with self._open_reader() as reader:
            return {name: reader.control(name) for name in (runs.REQUEUED, upkeep.RECYCLE)}

    async def tidy(self) -> None:
        """Remove the spool copies that no file needs any more."""
        await asyncio.to_thread(self._tidy)

    def _tidy(self) -> None:
        copies = self._spool.copies()  # before the ledger is asked: what comes in meanwhile is not in the list
        with self._open_reader() as reader:
            needed = {sha256 for _, sha256 in reader.spooled()}
        for sha256 in copies - needed:
            self._spool.release(sha256)

    async def prune(self) -> None:
        """Forget events and samples that are older than the settings keep them."""
        keep = self._settings.prune
        now = time.time()
        events = samples = 0
        is_all = False
        while not is_all:  # a little at a time: other writes go between
            gone = await self._ledger.write(
                runs.prune,
                events_before=now - keep.events_days * DAY_S if keep.events_days else None,
                samples_before=now - keep.samples_days * DAY_S if keep.samples_days else None,
                now=now,
            )
            events, samples, is_all = events + gone.events, samples + gone.samples, gone.all
        log.info("ledger pruned", events=events, samples=samples)
