"""The checkup: samples this life's health by the clock, and does what the verdict asks for."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from inboxd.config import Health
from inboxd.core.health import Exhausted, Healthy, Recycle, Relieve, Verdict, fragmentation, verdict
from inboxd.engines.protocol import Engine, Relievable
from inboxd.errors import Exit
from inboxd.ledger import runs, upkeep
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.model import RunId
from inboxd.rooms.heartbeat import Promises
from inboxd.rooms.vitals import Vitals

log = structlog.get_logger(__name__)

HOUR_S = 3600.0
SAMPLE_S = 120.0
"""Seconds that a sample may take; of an engine that answers in none of them it is taken without (`vitals.ANSWER_S`)."""


class Checkup:
    """Owns the verdict on this life. `end` begins its orderly end; `settings` may be replaced while it runs."""

    def __init__(
        self,
        settings: Health,
        vitals: Vitals,
        engine: Engine,
        ledger: Ledger,
        reader: Callable[[], Reader],
        run: RunId,
        end: Callable[[Exit, str], None],
        promises: Promises,
    ) -> None:
        self.settings = settings
        self._vitals = vitals
        self._engine = engine
        self._ledger = ledger
        self._open_reader = reader
        self._run = run
        self._end = end
        self._promises = promises
        self._started = time.monotonic()
        self._relieved: float | None = None
        self._last: Verdict = Healthy()

    @property
    def trouble(self) -> str:
        """What a person should look at; "" while there is nothing."""
        return self._last.reason if isinstance(self._last, Exhausted) else ""

    async def check(self) -> None:
        """Take a sample, write it down, judge and act."""
        with self._promises.within("taking a health sample", SAMPLE_S):
            sample = await self._vitals.sample(self._engine)
        await self._ledger.write(
            runs.sample,
            self._run,
            sample.memory,
            now=time.time(),
            pages=sample.pages,
            in_flight=sample.in_flight,
            pace=sample.pace,
            open_files=sample.open_files,
            fragmentation=fragmentation(sample.memory),
        )
        now = verdict(
            self._vitals.samples,
            self.settings.policy,
            time.monotonic(),
            self._started,
            recycles=self._recycles(),
            relieved=self._relieved,
            can_relieve=isinstance(self._engine, Relievable),
        )
        await self._act(now)
        self._last = now

    async def _act(self, now: Verdict) -> None:
        match now:
            case Recycle(reason):
                log.warning("this life ends, the next one starts afresh", reason=reason)
                self._end(Exit.RECYCLE, reason)
            case Relieve(reason):
                assert isinstance(self._engine, Relievable), "the verdict was told so"
                did = await self._engine.relieve()
                self._relieved = time.monotonic()
                log.warning("memory given back", did=did, reason=reason)
                await self._remark("relieved", f"{did}: {reason}")
            case Exhausted(reason) if not isinstance(self._last, Exhausted):
                log.error("a restart is due and would not help: look at this machine", reason=reason)
                await self._remark("exhausted", reason)
            case Healthy() if isinstance(self._last, Exhausted):
                log.info("healthy again")
                await self._remark("healthy", "")
            case _:
                return

    async def _remark(self, event: str, detail: str) -> None:
        await self._ledger.write(upkeep.remark, self._run, event, detail, now=time.time())

    def _recycles(self) -> int:
        """Planned restarts of the last hour."""
        now = time.time()
        oldest, newest = (datetime.fromtimestamp(at, UTC).replace(tzinfo=None) for at in (now - HOUR_S, now))
        with self._open_reader() as reader:
            ended = [row.ended for row in reader.runs(100) if row.exit_code == Exit.RECYCLE and row.ended]
        return sum(oldest < datetime.fromisoformat(at) <= newest for at in ended)  # a clock may have been set back
