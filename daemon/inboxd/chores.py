"""The chores: what has to be done by the clock, whatever the rooms are doing. APScheduler keeps the times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from inboxd.config import Settings
from inboxd.ledger import runs
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.rooms.inbox import InboxRoom

log = structlog.get_logger(__name__)

NOTICE_S = 1.0
"""Seconds between looks for what somebody asked of the ledger from the command line."""
DAY_S = 86_400.0


class Chores:
    """Prunes the ledger once a day, and notices requeues made by another process."""

    def __init__(self, settings: Settings, ledger: Ledger, reader: Callable[[], Reader], inbox: InboxRoom) -> None:
        self._settings = settings
        self._ledger = ledger
        self._open_reader = reader
        self._inbox = inbox
        self._requeues: str | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the times until `stop`."""
        scheduler = AsyncIOScheduler()
        scheduler.add_job(self.notice, "interval", seconds=NOTICE_S, max_instances=1, coalesce=True)
        scheduler.add_job(self.prune, "interval", seconds=DAY_S, max_instances=1, coalesce=True)
        scheduler.start()
        try:
            await stop.wait()
        finally:
            scheduler.shutdown(wait=False)

    async def notice(self) -> None:
        """A requeue puts files back to settling: a scan takes them up."""
        with self._open_reader() as reader:
            requeues = await asyncio.to_thread(reader.control, "requeued")
        if requeues != self._requeues and self._requeues is not None:
            self._inbox.rescan(None)
        self._requeues = requeues or ""

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
        log.info("ledger pruned", **gone)
