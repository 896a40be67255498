"""Watches how much is left: tells a progress bar, and ends a life that was asked to last only until all is done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from inboxd.errors import Exit
from inboxd.ledger.reading import Counts, Reader
from inboxd.rooms.inbox import InboxRoom
from inboxd.rooms.intake import IntakeRoom

log = structlog.get_logger(__name__)

LOOK_S = 0.25
SHARE = 0.2
"""Of the time, at most, that goes into counting: in a ledger of millions of files it takes half a second."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the daemon is, for a person to watch."""

    counts: Counts
    activity: str  # "loading the engine", "reading", "settling", "idle"


class Drain:
    """Looks at the ledger a few times a second at most while somebody wants to know."""

    def __init__(
        self, reader: Callable[[], Reader], inbox: InboxRoom, intake: IntakeRoom, activity: Callable[[], str]
    ) -> None:
        self._open_reader = reader
        self._inbox = inbox
        self._intake = intake
        self._activity = activity

    async def run(
        self,
        stop: asyncio.Event,
        until_drained: bool,
        end: Callable[[Exit, str], None],
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        """Report until `stop`; when asked, `end` the life once every inbox was scanned and every file is final."""
        if not until_drained and on_progress is None:
            return
        was_paused = False
        confirming: int | None = None  # full scans made when everything first looked done
        with self._open_reader() as reader:
            while not stop.is_set():
                began = time.monotonic()
                counts = await asyncio.to_thread(reader.counts)
                pause = max(LOOK_S, (time.monotonic() - began) / SHARE)
                if on_progress is not None:
                    on_progress(Progress(counts, self._activity()))
                if until_drained:
                    if counts.paused and not was_paused:
                        log.warning("paused: nothing is taken up until `inboxd resume`")
                    was_paused = counts.paused
                    scans = self._inbox.scans_everywhere()
                    if not self._is_drained(counts) or not scans:
                        confirming = None
                    elif confirming is None:
                        # One more look: a file may have been dropped behind the last scan.
                        confirming = scans
                        self._inbox.rescan(None)
                    elif scans > confirming:
                        self._finish(counts, end)
                try:
                    async with asyncio.timeout(pause):
                        await stop.wait()
                except TimeoutError:
                    continue

    def _is_drained(self, counts: Counts) -> bool:
        return counts.open == 0 and self._intake.idle

    def _finish(self, counts: Counts, end: Callable[[Exit, str], None]) -> None:
        if counts.undeliverable:
            log.error("some outputs can't be written; `inboxd status` says why", files=counts.undeliverable)
            end(Exit.FAILED, f"drained, but {counts.undeliverable} files have outputs that can't be written")
        elif unavailable := self._inbox.unavailable():
            log.error("some inboxes can't be read", inboxes=unavailable)
            end(Exit.FAILED, f"drained, but these inboxes can't be read: {'; '.join(unavailable)}")
        else:
            end(Exit.OK, "drained")
