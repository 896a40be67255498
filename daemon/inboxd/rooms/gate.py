"""The gate of intake: shut while too many files wait to be opened, and while the spool's disk has no room."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from inboxd.config import Intake
from inboxd.ledger import copies
from inboxd.ledger.opening import Ledger
from inboxd.rooms.looking import NoSpace
from inboxd.rooms.spool import Spool, SpoolError

log = structlog.get_logger(__name__)

PAUSE_S = 0.5
"""Seconds between two looks whether there is room again."""


class Gate:
    """Opens by itself when there is room again. Times are monotonic seconds."""

    def __init__(self, settings: Intake, ledger: Ledger, spool: Spool, tell: Callable[[str], None]) -> None:
        """`tell` is given the reason when intake begins to wait for space, and an empty one when that is over."""
        self._settings = settings
        self._ledger = ledger
        self._spool = spool
        self._tell = tell
        self._ready = settings.backlog  # files that wait to be opened, at most: counted at the first question
        self._space: NoSpace | None = None
        self.shut_until = 0.0

    async def is_open(self, now: float) -> bool:
        """Whether a file may be taken now; where not, ask again at `shut_until`."""
        if now < self.shut_until:
            return False
        if self._ready >= self._settings.backlog:
            self._ready = await self._ledger.write(copies.backlog)
        if self._ready < self._settings.backlog and self._has_space():
            return True
        self.shut_until = now + PAUSE_S
        return False

    def refused(self, space: NoSpace, now: float) -> None:
        """A copy could not be made for lack of space."""
        self.shut_until = now + PAUSE_S
        if self._space is None:
            log.warning("intake waits for space", reason=space.reason)
            self._tell(space.reason)
        self._space = space

    def passed(self) -> None:
        """A copy was made."""
        if self._space is not None:
            log.info("there is space again: intake goes on")
            self._tell("")
        self._space = None

    def add_ready(self) -> None:
        """One more file waits to be opened."""
        self._ready += 1

    def _has_space(self) -> bool:
        """Whether trying a copy makes sense."""
        if self._space is None or not self._space.wanted:
            return True
        try:
            free = self._spool.free()
        except SpoolError:
            return False
        if free < self._space.wanted:
            return False
        self.passed()
        return True
