"""The chores: what has to be done by the clock, whatever the rooms are doing. APScheduler keeps the times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog
from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from inboxd.config import Settings
from inboxd.errors import Exit
from inboxd.ledger import runs, upkeep
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.rooms.inbox import InboxRoom
from inboxd.rooms.spool import Spool

log = structlog.get_logger(__name__)

NOTICE_S = 1.0
"""Seconds between looks for what somebody asked of the ledger from the command line."""
TIDY_S = 5.0
"""Seconds between clearings of the spool: copies of files that are done, quarantined or gone."""
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
        checkup: Callable[[], Awaitable[None]],
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
        self._scheduler = AsyncIOScheduler(job_defaults={"max_instances": 1, "coalesce": True})

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the times until `stop`; a chore that fails ends it with what the chore raised."""
        await self.notice()
        self._scheduler.add_job(self.notice, "interval", seconds=NOTICE_S)
        self._scheduler.add_job(self.tidy, "interval", seconds=TIDY_S)
        self._scheduler.add_job(self.prune, "interval", seconds=DAY_S)
        self._scheduler.add_job(self._checkup, "interval", seconds=self._settings.health.interval, id="checkup")
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def fail(event: JobExecutionEvent) -> None:
            if not failed.done():
                failed.set_exception(event.exception)

        self._scheduler.add_listener(fail, EVENT_JOB_ERROR)
        self._scheduler.start()
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((stopping, failed), return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                failed.result()
        finally:
            stopping.cancel()
            self._scheduler.shutdown(wait=False)

    def reload(self, settings: Settings) -> None:
        """Go by these settings from now on."""
        if settings.health.interval != self._settings.health.interval:
            self._scheduler.reschedule_job("checkup", trigger="interval", seconds=settings.health.interval)
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
        gone = await self._ledger.write(
            runs.prune,
            events_before=now - keep.events_days * DAY_S if keep.events_days else None,
            samples_before=now - keep.samples_days * DAY_S if keep.samples_days else None,
            now=now,
        )
        log.info("ledger pruned", events=gone.events, samples=gone.samples)
