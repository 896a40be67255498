"""Looks at a settling file, and does what follows: it waits, is set aside, or is handed to the ledger with its copy."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import structlog

from inboxd import faults
from inboxd.config import Intake
from inboxd.core.lifecycle import FileState, IllegalMove
from inboxd.core.naming import display
from inboxd.core.settling import GiveUp, Pace, Wait
from inboxd.ledger import arrivals, copies
from inboxd.ledger.opening import Ledger
from inboxd.model import Arrival
from inboxd.rooms.bell import Bell
from inboxd.rooms.gate import Gate
from inboxd.rooms.hands import Hands
from inboxd.rooms.inbox import Watched
from inboxd.rooms.lane import Lane, Slot
from inboxd.rooms.listing import join
from inboxd.rooms.looking import GROWING, Away, Changed, Copied, Errand, NoSpace, NotForUs, Outcome, look
from inboxd.rooms.spool import CopyStopped, Spool, SpoolError

log = structlog.get_logger(__name__)

COPIES = 4
"""Files of one inbox that are looked at, or copied, at once."""


class Station:
    """What intake has for one inbox: its lane, and hands that a dead share can't take from the others."""

    def __init__(self, watched: Watched) -> None:
        settings = watched.settings
        self.path = watched.path
        self.lane = Lane(Pace(settings.settle, settings.max_settle))
        self.hands = Hands(COPIES, f"intake {watched.inbox}")
        self.bell = Bell()
        self.looks: set[asyncio.Task[None]] = set()

    @property
    def is_full(self) -> bool:
        """Whether all hands are busy."""
        return len(self.looks) >= COPIES

    def slow_down(self, path: bytes) -> None:
        """A file changed after it seemed complete: this inbox is given more time from now on."""
        if self.lane.slow_down():
            log.warning(
                "a file changed after it seemed complete: waiting longer in this inbox",
                path=self.shown(path),
                settle=self.lane.pace.settle,
            )

    def shown(self, path: bytes) -> str:
        return display(join(self.path, path))


class Taker:
    """Takes settled files, from whichever station."""

    def __init__(self, settings: Intake, ledger: Ledger, spool: Spool, gate: Gate, wake: Callable[[], None]) -> None:
        self._settings = settings
        self._ledger = ledger
        self._spool = spool
        self._gate = gate
        self._wake = wake
        self._stopping = threading.Event()  # for copies, which run on threads

    def stop(self) -> None:
        """Cut short what is being copied."""
        self._stopping.set()

    async def tend(self, station: Station, slot: Slot) -> None:
        """Look at one file, and act on what was found."""
        errand = Errand(
            station.path,
            slot.path,
            slot.quiet,
            station.lane.pace,
            self._settings.max_file_bytes,
            self._settings.min_free_bytes,
            slot.last_sha256,
        )
        try:
            outcome = await station.hands.do(look, errand, self._spool, self._stopping.is_set)
        except CopyStopped:
            return
        except SpoolError as error:
            outcome = NoSpace(str(error))
        await self._act(station, slot, outcome)

    async def _act(self, station: Station, slot: Slot, outcome: Outcome) -> None:
        lane, now, path = station.lane, time.monotonic(), station.shown(slot.path)
        match outcome:
            case Wait(until, reason, quiet):
                slot.quiet = quiet
                lane.again(slot, until)
                await self._note(slot, reason, path)
            case Changed(quiet, sha256):
                if quiet.signature.size != slot.signature.size:
                    station.slow_down(slot.path)
                slot.quiet, slot.last_sha256 = quiet, sha256
                lane.again(slot, now + lane.pace.settle)
                await self._note(slot, GROWING, path)
            case Away(reason):
                slot.since = now  # for as long as it can't be seen, it is neither settled nor stuck
                lane.again_soon(slot, now)
                log.debug("file can't be reached", path=path, reason=reason)
            case NoSpace():
                self._gate.refused(outcome, now)
                lane.give_back(slot)
            case GiveUp() | NotForUs():
                lane.drop(slot)
                await self._set_aside(slot, outcome, path)
            case Copied():
                self._gate.passed()
                await self._accept(station, slot, outcome, path)

    async def _note(self, slot: Slot, reason: str, path: str) -> None:
        if reason and reason != slot.reason:
            slot.reason = reason
            await self._ledger.write(arrivals.waiting, slot.file, reason, now=time.time())
            log.info("file waits", file=slot.file, path=path, reason=reason)

    async def _set_aside(self, slot: Slot, outcome: GiveUp | NotForUs, path: str) -> None:
        is_document = isinstance(outcome, GiveUp)
        verb = arrivals.quarantine if is_document else arrivals.skip
        try:
            await self._ledger.write(verb, slot.file, outcome.reason, now=time.time())
            faults.point("intake.set_aside")
        except IllegalMove:
            # Another file was renamed to its path a moment ago: the row has vanished, and the scan tells the rest.
            log.debug("file went meanwhile", file=slot.file, path=path)
            return
        tell, what = (log.warning, "file quarantined") if is_document else (log.info, "file skipped")
        tell(what, file=slot.file, path=path, reason=outcome.reason)

    async def _accept(self, station: Station, slot: Slot, copied: Copied, path: str) -> None:
        arrival = Arrival(slot.file, copied.signature, copied.kind, copied.sha256, copied.spool)
        try:
            accepted = await self._ledger.write(arrivals.accept, arrival, now=time.time())
        finally:
            self._spool.unhold(copied.sha256)
        faults.point("intake.accepted")
        station.lane.drop(slot)
        station.lane.accept(slot, copied.signature, time.monotonic())
        if accepted.state is FileState.READY:
            self._gate.add_ready()
            self._wake()
        elif not await self._ledger.write(copies.needed, copied.sha256):
            self._spool.release(copied.sha256)
        log.info(
            f"file {accepted.state}",
            file=slot.file,
            path=path,
            kind=str(copied.kind),
            size=copied.signature.size,
            **({"original": accepted.original} if accepted.original else {}),
            **({"reason": accepted.reason} if accepted.reason else {}),
        )
