"""The assembly room: a file whose pages are all final is put together, in order, and delivered beside its original."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from inboxd.ledger import deliveries
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.model import InboxId
from inboxd.rooms.delivering import WayOut
from inboxd.rooms.inbox import Watched
from inboxd.rooms.outputs import Outputs

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
        self._ways = {inbox: WayOut(ledger, reader, outputs, watched) for inbox, watched in inboxes.items()}

    def ring(self) -> None:
        """There may be something to deliver: the last page of a file has its last word, or the room is to end."""
        for way in self._ways.values():
            way.bell.ring()

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop`, and then what is owed by then; each inbox by itself: a dead share holds no other."""
        await self._ledger.write(deliveries.orphaned, list(self._ways), "its inbox is not configured", now=time.time())
        await self._ledger.write(deliveries.call_off)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(way.run(stop)) for way in self._ways.values()]
            await stop.wait()
            await asyncio.wait(tasks, timeout=GRACE_S)
            for task in tasks:
                task.cancel()
