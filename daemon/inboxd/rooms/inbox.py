"""The inbox room: sees to it that whatever is new, changed or gone in a watched folder is told to intake."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError

import structlog

from inboxd.core.naming import display
from inboxd.ledger import arrivals, marks
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.model import Gone, InboxId, Sighting
from inboxd.rooms.comparing import Found, Moved
from inboxd.rooms.keeping import InboxState, Kept, Watched
from inboxd.rooms.listing import join
from inboxd.rooms.marker import Claim, myself
from inboxd.rooms.tending import Report, Tender

__all__ = ["Door", "InboxRoom", "InboxState", "Watched"]

log = structlog.get_logger(__name__)

Door = asyncio.Queue[tuple[Sighting | Gone, ...]]

PATIENCE_S = 30.0
"""Seconds without an answer after which a scan counts as held by a dead share."""
GRACE_S = 2.0
"""Seconds that scans get to end when the daemon stops; a thread that the kernel holds is left behind."""


class InboxRoom:
    """Scans every inbox on a thread of its own, and hands on what comes of it through the bounded `door`."""

    def __init__(
        self,
        watched: Sequence[Watched],
        door: Door,
        reader: Callable[[], Reader],
        ledger: Ledger,
        *,
        patience: float = PATIENCE_S,
    ) -> None:
        self._inboxes = {one.inbox: Kept(one) for one in watched}
        self._door = door
        self._open_reader = reader
        self._ledger = ledger
        self._patience = patience
        self._no_space = ""
        self._news = asyncio.Event()
        self._failures: list[BaseException] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop`. A defect in a scan ends the room; trouble with a folder only changes its state."""
        loop = asyncio.get_running_loop()
        instance = await self._ledger.write(marks.instance, now=time.time())
        for kept in self._inboxes.values():
            kept.memory = await self._ledger.write(marks.memory, kept.watched.inbox)
            kept.tender = self._tender(kept, instance, loop, stop)
            kept.tender.start()
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                for kept in self._inboxes.values():
                    kept.listen(self._patience)
                    await kept.note(self._ledger, self._no_space)
                if self._failures:
                    raise self._failures[0]
                await self._wait(stopping)
        finally:
            stopping.cancel()
            await self._end()

    def rescan(self, inbox: InboxId | None = None) -> None:
        """Scan an inbox, or all of them, as soon as possible."""
        for kept in self._inboxes.values():
            if inbox in (None, kept.watched.inbox):
                kept.rescan()

    def scans(self, inbox: InboxId) -> int:
        """How often the whole inbox was scanned, and all that was found handed to intake."""
        return self._inboxes[inbox].scans

    def scans_everywhere(self) -> int:
        """How often each inbox was scanned, at least; one that can't be read counts as often as that was found."""
        return min(kept.looks for kept in self._inboxes.values())

    def states(self) -> dict[InboxId, InboxState]:
        """The state of each inbox now."""
        return {inbox: kept.state for inbox, kept in self._inboxes.items()}

    def unavailable(self) -> list[str]:
        """The inboxes that can't be read, each with the reason, for a person."""
        return [
            f"{kept.shown}: {kept.state.reason}" for kept in self._inboxes.values() if kept.state.state == "unavailable"
        ]

    def no_space(self, reason: str) -> None:
        """Intake says that it waits for space, or, with an empty reason, no longer does."""
        self._no_space = reason
        self._news.set()

    def _tender(self, kept: Kept, instance: str, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> Tender:
        settings = kept.watched.settings

        def tell(found: Found) -> bool:
            handing = self._hand_on(found, stop)
            try:
                future = asyncio.run_coroutine_threadsafe(handing, loop)
            except RuntimeError:  # the loop has ended
                handing.close()
                return False
            try:
                return future.result()
            except CancelledError:
                return False

        def report(report: Report) -> None:
            def note() -> None:
                kept.hear(report)
                self._news.set()

            _call(loop, note)

        def fail(error: BaseException) -> None:
            def note() -> None:
                self._failures.append(error)
                self._news.set()

            _call(loop, note)

        looks = max(settings.rescan_interval, settings.poll_interval)
        claim = Claim(
            myself(instance, self._ledger.path, kept.watched.inbox, looks), frozenset(self._inboxes), kept.memory
        )
        return Tender(kept.watched.inbox, settings, self._open_reader, claim, tell, report, fail)

    async def _hand_on(self, found: Found, stop: asyncio.Event) -> bool:
        """Rename what was moved, then pass the rest through the door; False when stopped meanwhile."""
        moved = [one for one in found if isinstance(one, Moved)]
        await asyncio.gather(*(self._rename(one) for one in moved))
        told: list[Sighting | Gone] = []
        for one in found:
            told += [Gone(one.new.inbox, one.old), one.new] if isinstance(one, Moved) else [one]
        put, stopped = asyncio.create_task(self._door.put(tuple(told))), asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({put, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return put.done()
        finally:
            stopped.cancel()
            put.cancel()

    async def _rename(self, moved: Moved) -> None:
        new, root = moved.new, self._inboxes[moved.new.inbox].watched.path
        await self._ledger.write(arrivals.rename, moved.file, new.path, new.signature, now=time.time())
        was, path = display(join(root, moved.old)), display(join(root, new.path))
        log.info("file was renamed", file=moved.file, was=was, path=path)

    async def _wait(self, stopping: asyncio.Task[bool]) -> None:
        """Until there is news, or it is time to listen for silent threads."""
        news = asyncio.create_task(self._news.wait())
        try:
            await asyncio.wait(
                {news, stopping}, timeout=min(1.0, self._patience / 4), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            news.cancel()
        self._news.clear()

    async def _end(self) -> None:
        tenders = [kept.tender for kept in self._inboxes.values() if kept.tender is not None]
        for tender in tenders:
            tender.stop()
        ends = time.monotonic() + GRACE_S
        for tender in tenders:
            # Not joined on this loop: the thread may be waiting for it to hand something over.
            while not tender.join(0) and time.monotonic() < ends:
                await asyncio.sleep(0.01)


def _call(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(what)
    except RuntimeError:  # the loop has ended, and nobody is left to tell
        return
