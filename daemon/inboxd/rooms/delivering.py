"""The way out of one inbox: its complete files are put together and delivered, and their originals archived."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import structlog

from inboxd import faults
from inboxd.core.holding import Holding
from inboxd.core.naming import display
from inboxd.core.trouble import Reach
from inboxd.ledger import deliveries
from inboxd.ledger.form import split
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.model import Due, FileId, Reading
from inboxd.rooms.aside import aside
from inboxd.rooms.bell import Bell
from inboxd.rooms.keeping import Watched
from inboxd.rooms.outputs import Archived, Outputs, Undeliverable, Vanished

log = structlog.get_logger(__name__)

IDLE_S = 2.0
"""Seconds between looks for outputs that are owed: duplicates, and folders that were full or read-only."""
OWED_EVERY_S = 30.0
"""Seconds until what could not be written is tried again; it is never given up. Where a folder or the whole inbox
refuses, one file is tried for all that are owed there."""
AT_ONCE = 4
"""Files of one inbox that are delivered at the same time."""


class WayOut:
    """Delivers what one inbox owes; ring `bell` when there may be more of it."""

    def __init__(self, ledger: Ledger, reader: Callable[[], Reader], outputs: Outputs, watched: Watched) -> None:
        self._ledger = ledger
        self._open_reader = reader
        self._outputs = outputs
        self._inbox = watched.inbox
        self._settings = watched.settings
        self._archiving = watched.settings.archive_dir is not None
        self._writing = Holding(OWED_EVERY_S)
        self._moving = Holding(OWED_EVERY_S)  # the archive may refuse what the inbox takes
        self.bell = Bell()

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop`, and then what is owed by then."""
        while True:
            stopping = stop.is_set()
            if await self._round():
                continue
            if stopping:
                return
            await self.bell.wait(IDLE_S)

    async def _round(self) -> bool:
        """Whether anything came of it, be it that it is tried again later: else the next round finds the same."""
        now = time.monotonic()
        if self._writing.is_shut(now):
            return False
        due = await self._ledger.write(deliveries.owed, AT_ONCE, inbox=self._inbox, now=time.time())
        moves = [one for one in due if self._archiving and one.is_written]
        writes = [one for one in due if one not in moves]
        chosen = self._writing.choose(writes, now) + self._moving.choose(moves, now)
        is_put_off = await self._put_off(writes, self._writing, now) + await self._put_off(moves, self._moving, now)
        async with asyncio.TaskGroup() as group:
            for one in chosen:
                group.create_task(self._deliver(one))
        return bool(chosen) or is_put_off > 0

    async def _put_off(self, due: Sequence[Due], holding: Holding, now: float) -> int:
        """What came to a folder while it is left alone waits with the rest; says in how many folders."""
        found = {one.folder: held for one in due if (held := holding.held(one.folder, now)) is not None}
        for folder, held in found.items():
            await self._hold(folder, held.reason, held.until - now, holding)
        return len(found)

    async def _hold(self, folder: bytes, reason: str, seconds: float, holding: Holding) -> None:
        until, moves_only = time.time() + seconds, holding is self._moving
        await self._ledger.write(deliveries.hold, self._inbox, folder, reason, until, moves_only=moves_only)

    async def _deliver(self, due: Due) -> None:
        try:
            reading = await aside(self._reading, due.file)
        except LookupError as error:  # it vanished or was requeued since it was asked for, and is not owed any more
            await self._owe(due.file, "", str(error))
            return
        outcome = await self._outputs.deliver(reading, self._settings)
        if isinstance(outcome, Undeliverable | Vanished):
            await self._not_now(reading, outcome, self._writing)
            return
        self._writing.took(due.folder)
        faults.point("assembly.outputs_written")
        written = await self._ledger.write(
            deliveries.delivered, due.file, outcome, archiving=self._archiving, now=time.time()
        )
        if written:
            log.info("file done", file=due.file, path=display(reading.path), pages=len(reading.pages))
        faults.point("assembly.delivered")
        if self._archiving and (due.is_written or self._moving.is_open(due.folder)):
            await self._archive(reading)

    async def _archive(self, reading: Reading) -> None:
        outcome = await self._outputs.archive(reading, self._settings)
        if not isinstance(outcome, Archived):
            await self._not_now(reading, outcome, self._moving)
            return
        self._moving.took(split(reading.path)[0])
        faults.point("assembly.archived")
        await self._ledger.write(deliveries.archived, reading.file, outcome.path, now=time.time())
        faults.point("assembly.closed")
        path, to = display(reading.path), display(outcome.path)
        log.info("original archived", file=reading.file, path=path, to=to)

    async def _not_now(self, reading: Reading, outcome: Undeliverable | Vanished, holding: Holding) -> None:
        file, path, reason = reading.file, display(reading.path), outcome.reason
        gone = isinstance(outcome, Vanished) and outcome.certain
        if gone and await self._ledger.write(deliveries.vanished, file, reason, now=time.time()):
            log.info("original gone, nothing more to do", file=file, path=path)
            return
        await self._owe(file, path, reason)
        faults.point("assembly.owed")
        if outcome.reach is Reach.FILE:
            return
        folder, now = split(reading.path)[0], time.monotonic()
        is_held = holding.held(folder, now) is not None  # by another that was tried at the same time
        holding.refused(folder, outcome.reach, reason, now)
        if not is_held:
            await self._hold(folder, reason, OWED_EVERY_S, holding)
            faults.point("assembly.held")
            if holding is self._writing and holding.is_shut(now):
                await self._ledger.write(deliveries.shut, self._inbox, reason)
                faults.point("assembly.shut")

    async def _owe(self, file: FileId, path: str, reason: str) -> None:
        now = time.time()
        if await self._ledger.write(deliveries.undelivered, file, reason, now + OWED_EVERY_S, now=now):
            log.warning("can't be delivered now", file=file, path=path, reason=reason)

    def _reading(self, file: FileId) -> Reading:
        with self._open_reader() as reader:
            return reader.reading(file)
