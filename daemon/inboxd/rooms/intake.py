"""The intake room: lets what was seen settle, copies it once to the spool, and has the ledger take it in.

Killed at any moment it loses nothing. A sighting without a row is seen again; a file that settles is seen again for as
long as its row says so; a copy that no row needs is swept at the next start, and the file is taken again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from inboxd import faults
from inboxd.config import Intake
from inboxd.ledger import arrivals, copies
from inboxd.ledger.opening import Ledger
from inboxd.model import Entry, Gone, Sighting
from inboxd.rooms.gate import Gate
from inboxd.rooms.inbox import Door, Watched
from inboxd.rooms.lane import Slot
from inboxd.rooms.spool import Spool
from inboxd.rooms.taking import Station, Taker

TOGETHER = 1000
"""Sightings that are recorded at once, about."""
MISS_S = 2.0
"""Seconds between two counts of the files that settle."""
GRACE_S = 3.0
"""Seconds that looks under way get to end when the daemon stops; one that a dead share holds is left behind."""


class IntakeRoom:
    """Takes sightings from the door; calls `wake` when a file is ready to be read."""

    def __init__(
        self,
        settings: Intake,
        inboxes: Sequence[Watched],
        door: Door,
        ledger: Ledger,
        spool: Spool,
        wake: Callable[[], None],
        no_space: Callable[[str], None],
        rescan: Callable[[], None],
    ) -> None:
        """`no_space` is told why intake waits for space; an empty reason says that it no longer does.

        `rescan` has all inboxes scanned: files that settle again come in by that.
        """
        self._stations = {watched.inbox: Station(watched) for watched in inboxes}
        self._door = door
        self._ledger = ledger
        self._gate = Gate(settings, ledger, spool, no_space)
        self._taker = Taker(settings, ledger, spool, self._gate, wake)
        self._rescan = rescan
        self._recording = 0  # batches that are being recorded

    @property
    def idle(self) -> bool:
        """Whether everything that came through the door is recorded, and nothing settles."""
        is_settling = any(len(station.lane) for station in self._stations.values())
        return self._door.empty() and not self._recording and not is_settling

    async def run(self, stop: asyncio.Event) -> None:
        """Take files in until `stop`; what is being copied then is left to the next life."""
        stopping = asyncio.create_task(stop.wait())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._record(stopping))
                group.create_task(self._miss(stopping))
                for station in self._stations.values():
                    group.create_task(self._look_after(station, stopping, group))
        finally:
            stopping.cancel()
            for station in self._stations.values():
                station.hands.close()

    async def _record(self, stopping: asyncio.Task[bool]) -> None:
        while not stopping.done():
            getting = asyncio.create_task(self._get())
            await asyncio.wait({getting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                getting.cancel()
                return
            await self._take_in(getting.result())
            self._recording -= 1

    async def _get(self) -> list[Sighting | Gone]:
        told = list(await self._door.get())
        self._recording += 1
        while len(told) < TOGETHER and not self._door.empty():
            told += self._door.get_nowait()
        return told

    async def _take_in(self, told: Sequence[Sighting | Gone]) -> None:
        """Record what was told, in the order in which it was."""
        sightings: list[Sighting] = []
        gone: list[Gone] = []
        for one in told:
            station = self._stations[one.inbox]
            slot = station.lane.get(one.path)
            if isinstance(one, Sighting):
                if slot is not None and slot.signature == one.signature and one.entry is Entry.FILE:
                    continue
                if slot is None and station.lane.was_too_quick(one.path, one.signature, time.monotonic()):
                    station.slow_down(one.path)
            if slot is not None and slot.is_busy:
                slot.deferred = one
                continue
            if slot is not None:
                station.lane.drop(slot)
            if isinstance(one, Sighting):
                await self._vanish(gone)
                sightings.append(one)
            else:
                await self._see(sightings)
                gone.append(one)
        await self._see(sightings)
        await self._vanish(gone)

    async def _see(self, sightings: list[Sighting]) -> None:
        if not sightings:
            return
        tracked = await self._ledger.write(arrivals.record, sightings, now=time.time())
        faults.point("intake.recorded")
        sightings.clear()
        now = time.monotonic()
        for one in tracked:
            sighting = one.sighting
            station = self._stations[sighting.inbox]
            station.lane.add(one.file, sighting.path, sighting.signature, now)
            station.bell.ring()

    async def _vanish(self, gone: list[Gone]) -> None:
        if gone:
            await self._ledger.write(arrivals.gone, gone, now=time.time())
            gone.clear()

    async def _miss(self, stopping: asyncio.Task[bool]) -> None:
        """Notice files that settle without having been seen: their copy was lost, or the file they were a copy of."""
        missed = 0
        while not stopping.done():
            await asyncio.wait({stopping}, timeout=MISS_S)
            tracked = sum(len(station.lane) for station in self._stations.values())
            if self._recording or not self._door.empty():
                continue
            more = await self._ledger.write(copies.settling) - tracked
            # Those in a folder that can't be read are missed for long: asking for them once is enough.
            if more > missed:
                self._rescan()
            missed = more

    async def _look_after(self, station: Station, stopping: asyncio.Task[bool], group: asyncio.TaskGroup) -> None:
        """Have the files of one inbox looked at as they are due."""
        while not stopping.done():
            now = time.monotonic()
            due = station.lane.next_at()
            if due is not None and due <= now and not station.is_full and await self._gate.is_open(now):
                slot = station.lane.next(now)
                if slot is not None:
                    self._begin(station, slot, group)
                continue
            rest = None if due is None or station.is_full else max(0.0, max(due, self._gate.shut_until) - now)
            ringing = asyncio.create_task(station.bell.wait(rest))
            await asyncio.wait({ringing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            ringing.cancel()
        self._taker.stop()
        if station.looks:
            await asyncio.wait(station.looks, timeout=GRACE_S)
        for task in station.looks:
            task.cancel()

    def _begin(self, station: Station, slot: Slot, group: asyncio.TaskGroup) -> None:
        slot.is_busy = True
        task = group.create_task(self._look(station, slot))
        station.looks.add(task)

        def end(_: asyncio.Task[None]) -> None:
            station.looks.discard(task)
            station.bell.ring()

        task.add_done_callback(end)

    async def _look(self, station: Station, slot: Slot) -> None:
        await self._taker.tend(station, slot)
        self._recording += 1
        slot.is_busy = False
        if slot.deferred is not None:
            await self._take_in([slot.deferred])
        self._recording -= 1
