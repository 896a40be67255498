"""The watchdog's proof of life: systemd is told that we are alive only while every promise is kept."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

import structlog

from inboxd.notify import Notifier

log = structlog.get_logger(__name__)

FEEDS = 4
"""Times that the watchdog is fed in its period: two may be late without harm."""


class Promises:
    """What the rooms are at that must end by a certain time.

    `with promises.within("reading page 12", 320): ...` promises that the block ends in so many seconds. A room that
    waits for work promises nothing and may wait for ever.
    """

    def __init__(self) -> None:
        self._promises: dict[object, tuple[str, float]] = {}

    @contextlib.contextmanager
    def within(self, what: str, seconds: float) -> Iterator[None]:
        promise = object()
        self._promises[promise] = (what, time.monotonic() + seconds)
        try:
            yield
        finally:
            del self._promises[promise]

    def overdue(self, now: float) -> tuple[str, ...]:
        """Promises that were not kept, the longest overdue first; `now` is monotonic seconds."""
        late = sorted((end, what) for what, end in self._promises.values() if end < now)
        return tuple(what for _, what in late)


class Heartbeat:
    """Feeds systemd's watchdog from the event loop, so that a loop that stands still is caught as well."""

    def __init__(self, notifier: Notifier, promises: Promises) -> None:
        self._notifier = notifier
        self._promises = promises

    async def run(self, stop: asyncio.Event) -> None:
        """Feed until `stop`; returns at once where no watchdog is set."""
        period = self._notifier.watchdog_s
        if period is None:
            return
        starving = False
        while not stop.is_set():
            overdue = self._promises.overdue(time.monotonic())
            if not overdue:
                self._notifier.alive()
            elif not starving:
                log.error("no progress: the watchdog is no longer fed", overdue=overdue, kills_us_in_s=period)
            starving = bool(overdue)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(period / FEEDS):
                    await stop.wait()
