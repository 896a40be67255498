"""The assembly room: a file whose pages are all final is put together, in order, and delivered beside its original."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog

from inboxd import faults
from inboxd.core.naming import display
from inboxd.ledger import deliveries
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.model import FileId, InboxId, Reading
from inboxd.rooms.aside import aside
from inboxd.rooms.bell import Bell
from inboxd.rooms.inbox import Watched
from inboxd.rooms.outputs import Archived, Outputs, Undeliverable, Vanished

log = structlog.get_logger(__name__)

IDLE_S = 2.0
"""Seconds between looks for outputs that are owed: duplicates, and folders that were full or read-only."""
OWED_EVERY_S = 30.0
"""Seconds until outputs that could not be written are tried again; they are never given up."""
AT_ONCE = 4
"""Files of one inbox that are delivered at the same time."""
GRACE_S = 10.0
"""Seconds that deliveries get when the daemon stops; what a dead share holds is left to the next life."""


class AssemblyRoom:
    """Delivers complete files; what can't be delivered now is owed, and tried again by itself."""

    def __init__(
        self,
        ledger: Ledger,
        reader: Callable[[], Reader],
        outputs: Outputs,
        inboxes: Mapping[InboxId, Watched],
    ) -> None:
        self._ledger = ledger
        self._open_reader = reader
        self._outputs = outputs
        self._inboxes = inboxes
        self._bells = {inbox: Bell() for inbox in inboxes}

    def ring(self) -> None:
        """There may be something to deliver: the last page of a file has its last word, or the room is to end."""
        for bell in self._bells.values():
            bell.ring()

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop`, and then what is owed by then; each inbox by itself: a dead share holds no other."""
        await self._ledger.write(
            deliveries.orphaned, list(self._inboxes), "its inbox is not configured", now=time.time()
        )
        await self._ledger.write(deliveries.call_off)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._look_after(inbox, stop)) for inbox in self._inboxes]
            await stop.wait()
            await asyncio.wait(tasks, timeout=GRACE_S)
            for task in tasks:
                task.cancel()

    async def _look_after(self, inbox: InboxId, stop: asyncio.Event) -> None:
        while True:
            stopping = stop.is_set()
            files = await self._ledger.write(deliveries.owed, AT_ONCE, inbox=inbox, now=time.time())
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._deliver(file, self._inboxes[inbox])) for file in files]
            if any(task.result() for task in tasks):
                continue
            if stopping:
                return
            await self._bells[inbox].wait(IDLE_S)

    async def _deliver(self, file: FileId, watched: Watched) -> bool:
        """Whether anything came of it, be it that it is tried again later: else the next round finds the same."""
        try:
            reading = await aside(self._reading, file)
        except LookupError:  # it vanished or was requeued since it was asked for
            return False
        path = display(reading.path)
        outcome = await self._outputs.deliver(reading, watched.settings)
        if isinstance(outcome, Undeliverable | Vanished):
            await self._not_now(file, path, outcome)
            return True
        faults.point("assembly.outputs_written")
        archiving = watched.settings.archive_dir is not None
        if await self._ledger.write(deliveries.delivered, file, outcome, archiving=archiving, now=time.time()):
            log.info("file done", file=file, path=path, pages=len(reading.pages))
        faults.point("assembly.delivered")
        if archiving:
            await self._archive(reading, watched)
        return True

    async def _archive(self, reading: Reading, watched: Watched) -> None:
        outcome = await self._outputs.archive(reading, watched.settings)
        path = display(reading.path)
        if isinstance(outcome, Archived):
            faults.point("assembly.archived")
            await self._ledger.write(deliveries.archived, reading.file, outcome.path, now=time.time())
            faults.point("assembly.closed")
            log.info("original archived", file=reading.file, path=path, to=display(outcome.path))
        else:
            await self._not_now(reading.file, path, outcome)

    async def _not_now(self, file: FileId, path: str, outcome: Undeliverable | Vanished) -> None:
        gone = isinstance(outcome, Vanished) and outcome.certain
        if gone and await self._ledger.write(deliveries.vanished, file, outcome.reason, now=time.time()):
            log.info("original gone, nothing more to do", file=file, path=path)
        else:
            await self._owe(file, path, outcome.reason)

    def _reading(self, file: FileId) -> Reading:
        with self._open_reader() as reader:
            return reader.reading(file)

    async def _owe(self, file: FileId, path: str, reason: str) -> None:
        now = time.time()
        if await self._ledger.write(deliveries.undelivered, file, reason, now + OWED_EVERY_S, now=now):
            log.warning("can't be delivered now", file=file, path=path, reason=reason)
