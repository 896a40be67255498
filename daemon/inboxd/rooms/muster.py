"""The muster: how many of several engines read, for the ledger, `inboxd status` and systemd's status line."""

from __future__ import annotations

import asyncio
import contextlib
import time

import structlog

from inboxd.engines.protocol import Engine, Several
from inboxd.ledger import upkeep
from inboxd.ledger.opening import Ledger
from inboxd.model import RunId

log = structlog.get_logger(__name__)

LOOK_S = 0.5


class Muster:
    """`missing` is what the engine last said of its parts; "" while all are there, or it has none."""

    def __init__(self, engine: Engine, ledger: Ledger, run: RunId) -> None:
        self._engine = engine
        self._ledger = ledger
        self._run = run
        self.missing = ""

    async def run(self, started: asyncio.Event, stop: asyncio.Event) -> None:
        """Write down each change, from the moment that the engine has `started` until `stop`."""
        if not isinstance(self._engine, Several):
            return
        await started.wait()
        while not stop.is_set():
            if (missing := self._engine.missing) != self.missing:
                self.missing = missing
                log.warning("engines", missing=missing) if missing else log.info("all engines read")
                await self._ledger.write(upkeep.engines, self._run, missing, now=time.time())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await stop.wait()
