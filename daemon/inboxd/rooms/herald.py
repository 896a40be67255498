"""The herald: tells systemd when we are ready, what we are doing, and that we are ending."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from inboxd.core.lifecycle import FileState
from inboxd.ledger.reading import Reader
from inboxd.ledger.rows import Counts
from inboxd.notify import Notifier

READING = "reading"
"""What the daemon is at when nothing stands in its way."""
LOOK_S = 0.1
TELL_S = 2.0
SHARE = 0.05
"""Of the time, at most, that goes into counting: in a ledger of millions of files it takes half a second."""
PATIENCE_S = 15.0
"""Seconds after which a folder that does not answer no longer keeps us from being ready."""
CLOSING_S = 60.0
"""Time asked for beyond the drain: outputs, engine and ledger."""


class Herald:
    """`activity` is what the daemon is at, in a word or two; `watching` whether every folder was looked at once."""

    def __init__(
        self,
        notifier: Notifier,
        reader: Callable[[], Reader],
        activity: Callable[[], str],
        watching: Callable[[], bool],
    ) -> None:
        self._notifier = notifier
        self._open_reader = reader
        self._activity = activity
        self._watching = watching

    async def run(self, stop: asyncio.Event, drain_timeout_s: float) -> None:
        """Announce the start, then the state of things every now and then, then the end; returns at `stop`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while not self._watching() and not stop.is_set():
                    await asyncio.sleep(LOOK_S)
        self._notifier.ready(self._activity())
        with self._open_reader() as reader:
            told: tuple[str, int] | None = None
            pause = TELL_S
            while not stop.is_set():
                at = self._activity(), await asyncio.to_thread(reader.data_version)
                if at != told:
                    told, began = at, time.monotonic()
                    self._notifier.status(sentence(self._activity(), await asyncio.to_thread(reader.counts)))
                    pause = max(TELL_S, (time.monotonic() - began) / SHARE)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await stop.wait()
        self._notifier.stopping("finishing the pages in flight")
        self._notifier.extend(drain_timeout_s + CLOSING_S)


def sentence(activity: str, counts: Counts) -> str:
    """One line for `systemctl status`."""
    waiting = counts.files[FileState.SETTLING] + counts.files[FileState.READY] + counts.files[FileState.RETRYING]
    idle = activity == READING and not counts.pages_open
    parts = [
        "paused" if counts.paused else "idle" if idle else activity,
        f"{counts.pages_in_flight} pages in flight",
        f"{counts.pages_open - counts.pages_in_flight} to read",
        f"{counts.pages_done} read",
        f"{waiting} files waiting",
    ]
    if counts.files[FileState.QUARANTINED]:
        parts.append(f"{counts.files[FileState.QUARANTINED]} quarantined")
    return ", ".join(parts)
