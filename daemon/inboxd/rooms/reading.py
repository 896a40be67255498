"""The reading room: gathers pages into micro-batches, feeds the engine without a gap, and outlives its deaths."""

from __future__ import annotations

import asyncio
import time
from collections import deque

import structlog

from inboxd import faults
from inboxd.core.admission import Window, batch_size, wait_s
from inboxd.core.blame import Streak
from inboxd.core.lastword import ReadBy
from inboxd.engines.protocol import Engine
from inboxd.errors import EngineLost, EngineUnusable
from inboxd.model import BatchId, EngineInfo, PageFailure, PageId, Rendered
from inboxd.rooms.bell import Bell
from inboxd.rooms.desk import Desk
from inboxd.rooms.heartbeat import Promises
from inboxd.rooms.stopping import unless
from inboxd.rooms.vitals import Pulse

log = structlog.get_logger(__name__)

START_S, END_S = 1800.0, 30.0
"""Seconds that an engine may take to start (compiling for a GPU takes minutes), and to end."""


class ReadingRoom:
    """Owns the engine: starts it, admits pages while its window has room, rebuilds it when it dies."""

    def __init__(
        self,
        engine: Engine,
        desk: Desk,
        page_timeout_s: float,
        drain_timeout_s: float,
        pulse: Pulse,
        promises: Promises,
    ) -> None:
        self._engine = engine
        self._desk = desk
        self._page_timeout_s = page_timeout_s
        self._drain_timeout_s = drain_timeout_s
        self._pulse = pulse
        self._promises = promises
        self._waiting: deque[Rendered] = deque()
        self._in_flight: dict[PageId, Rendered] = {}
        pulse.in_flight = self._in_flight
        self._lost: EngineLost | None = None
        self._streak = Streak()
        self._by: ReadBy | None = None
        self.info: EngineInfo | None = None
        self.bell = Bell()

    def window(self) -> Window | None:
        """What the engine can hold; None while it is starting or dead."""
        if self._by is None or self._lost is not None:
            return None
        limits = self._engine.limits
        return Window(limits.pages_in_flight, limits.batch_pages, limits.batch_wait_s)

    def offer(self, rendered: Rendered) -> None:
        """Take a rendered page in; how many may wait is the claiming side's to bound."""
        self._waiting.append(rendered)
        self.bell.ring()

    async def start(self) -> EngineInfo:
        """Start the engine.

        Raises:
            EngineUnusable: it can't run here.
        """
        with self._promises.within("starting the engine", START_S):
            self.info = await self._engine.start()
        self._by = ReadBy(self.info.engine, self.info.model)
        log.info("engine ready", engine=self.info.engine, model=self.info.model, device=self.info.device)
        return self.info

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop`; then let the pages in flight finish within the drain time, and put back the rest.

        Raises:
            EngineUnusable: the engine kept dying, or could not be started again.
        """
        try:
            async with asyncio.TaskGroup() as group:
                reads: set[asyncio.Task[None]] = set()
                while not stop.is_set():
                    if self._lost is None:
                        await self._admit(group, reads)
                        continue
                    await self._clear_away(self._lost, reads)
                    # A start takes minutes. Cut short, it leaves nothing that `_close` does not end.
                    await unless(stop, self._start_again())
                await self._drain(reads)
        finally:
            await self._close()

    async def _close(self) -> None:
        with self._promises.within("ending the engine", END_S):
            await self._engine.close()

    async def _admit(self, group: asyncio.TaskGroup, reads: set[asyncio.Task[None]]) -> None:
        """Send out one micro-batch if one is due, else wait for news."""
        window = self.window()
        assert window is not None and self._by is not None, "the engine was started before the room"
        oldest = time.monotonic() - self._waiting[0].at if self._waiting else 0.0
        size = batch_size(len(self._waiting), oldest, len(self._in_flight), window)
        if not size:
            await self.bell.wait(wait_s(len(self._waiting), oldest, len(self._in_flight), window))
            return
        batch = [self._waiting.popleft() for _ in range(size)]
        self._in_flight.update((rendered.claim.page, rendered) for rendered in batch)
        batch_id = await self._desk.admit(self._by.engine, batch, isolated=self._engine.limits.isolated)
        faults.point("reading.admitted")
        for rendered in batch:
            read = group.create_task(self._read(rendered, batch_id, self._by))
            reads.add(read)
            read.add_done_callback(reads.discard)

    async def _read(self, rendered: Rendered, batch: BatchId, by: ReadBy) -> None:
        queue_s = time.monotonic() - rendered.at
        try:
            with self._promises.within("reading a page", self._page_timeout_s + END_S):
                async with asyncio.timeout(self._page_timeout_s):
                    outcome = await self._engine.read(rendered.image, rendered.claim.attempt)
        except TimeoutError:
            self._lose(EngineLost(f"the engine did not answer for {self._page_timeout_s:.0f} s on one page"))
            return
        except EngineLost as lost:
            self._lose(lost)
            return
        faults.point("reading.answered")
        if not (isinstance(outcome, PageFailure) and outcome.died):
            self._streak = Streak()
        if isinstance(outcome, PageFailure):
            await self._desk.failed(rendered.claim, outcome, by)
        else:
            self._pulse.page_read(outcome.read_s, outcome.tokens_out)
            final = self._engine.limits.deterministic
            await self._desk.read(rendered, outcome, batch, by, queue_s=queue_s, final=final)
            faults.point("reading.read")
        self._in_flight.pop(rendered.claim.page, None)
        self.bell.ring()

    def _lose(self, lost: EngineLost) -> None:
        if self._lost is None:
            log.error("engine lost", reason=lost.what, pages_in_flight=len(self._in_flight))
        self._lost = lost
        self.bell.ring()

    async def _clear_away(self, lost: EngineLost, reads: set[asyncio.Task[None]]) -> None:
        """End what is left of a lost engine and put its pages back; raises EngineUnusable if it is itself to blame."""
        await self._close()  # every call still in flight raises EngineLost
        if reads:
            await asyncio.wait(reads)
        died_with = [rendered.claim for rendered in self._in_flight.values()]
        await self._desk.release(died_with, died=lost.what)
        self._in_flight.clear()
        self._streak = self._streak.died(died_with)
        if self._streak.is_the_engines:
            raise EngineUnusable(
                f"the engine dies again and again, whatever it reads: {lost.what}",
                "Run `inboxd check --engine`, and look at the log for the first death. `inboxd requeue --failed` then "
                "has the pages read that it died of.",
            )

    async def _start_again(self) -> None:
        pause = self._streak.pause_s
        log.warning("starting the engine again", in_s=pause, unexplained_deaths=self._streak.unexplained)
        await asyncio.sleep(pause)
        await self.start()
        self._lost = None

    async def _drain(self, reads: set[asyncio.Task[None]]) -> None:
        waiting = [rendered.claim for rendered in self._waiting]
        self._waiting.clear()
        await self._desk.release(waiting)
        if reads and self._lost is None:
            log.info("finishing the pages in flight", pages=len(reads), at_most_s=self._drain_timeout_s)
            await asyncio.wait(reads, timeout=self._drain_timeout_s)
        for read in list(reads):
            read.cancel()
        if reads:
            await asyncio.wait(reads)
        await self._desk.release([rendered.claim for rendered in self._in_flight.values()])
        self._in_flight.clear()
