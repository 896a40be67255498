"""The embedded engine: PP-OCRv6 on the CPU, in one single-threaded process for each core.

A process that dies or hangs costs the page that it was reading, nothing else: another takes its place. Processes
are started when pages come that those at hand are too few for: a machine that gets a page now and then runs one.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import structlog

from inboxd import allowance
from inboxd.engines.cpu_process import ReadingProcess
from inboxd.engines.protocol import Engine, Limits
from inboxd.errors import EngineLost, EngineUnusable
from inboxd.model import EngineInfo, MemorySample, PageFailure, PageImage, PageText

if TYPE_CHECKING:
    from collections.abc import Callable

    from inboxd.config import Settings

PROCESS_BYTES = 5 * 1024**3 // 4  # a reading process peaks at 1.0 GB; the rest is for whatever else runs here
BATCH_WAIT = 0.05  # seconds; pages are read one by one, so there is next to nothing to gather
GIVE_UP = 0.9  # share of the page's time after which its process is ended: at all of it, the engine counts as lost

T = TypeVar("T")

log = structlog.get_logger(__name__)


def create(settings: Settings) -> Engine:
    """The engine as the configuration wants it."""
    workers = settings.engine.workers or fitting(allowance.cores(), allowance.free_memory())
    return CpuEngine(workers, GIVE_UP * settings.engine.page_timeout)


def fitting(cores: int, free_bytes: int) -> int:
    """One single-threaded process for each core, as far as memory goes; at least one."""
    return max(1, min(cores, free_bytes // PROCESS_BYTES))


class CpuEngine:
    """An `Engine` that reads `workers` pages at a time, each in at most `page_timeout` seconds."""

    def __init__(self, workers: int, page_timeout: float) -> None:
        self._limits = Limits(workers, batch_pages=workers, batch_wait_s=BATCH_WAIT, deterministic=True, isolated=True)
        self._page_timeout = page_timeout
        self._all: list[ReadingProcess] = []
        self._idle: asyncio.LifoQueue[ReadingProcess] = asyncio.LifoQueue()  # the last one used is warm
        self._info: EngineInfo | None = None
        self._lost: str | None = "it has not been started"  # why it can't read

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def processes(self) -> tuple[int, ...]:
        """The ids of the reading processes that are alive."""
        return tuple(pid for process in self._all if (pid := process.pid) is not None)

    async def start(self) -> EngineInfo:
        """Start the first process: it loads the models and reads a test page.

        Raises:
            EngineUnusable: it can't.
        """
        if self._lost is None and self._info is not None:
            return self._info
        await self.close()
        self._all = [ReadingProcess(number) for number in range(self._limits.pages_in_flight)]
        self._idle = asyncio.LifoQueue()
        for process in self._all:
            self._idle.put_nowait(process)
        first = self._all[-1]
        try:
            info = await self._on_thread(first, first.ready)
        except BaseException:  # a cancelled start, too, leaves no process behind
            await self.close()
            raise
        self._lost = None
        self._info = replace(info, details={**info.details, "processes": f"up to {len(self._all)}"})
        return self._info

    async def read(self, page: PageImage, attempt: int = 1) -> PageText | PageFailure:
        """Read one page, leaving its padding out; every attempt reads the same.

        Raises:
            EngineLost: the engine is closed, or a process that is needed can't be started.
        """
        self._check()
        idle = self._idle  # a later life has another
        process = await idle.get()
        try:
            async with asyncio.timeout(self._page_timeout):
                answer = await self._read(process, page)
        except TimeoutError:
            answer = PageFailure(f"not read within {self._page_timeout:g} s: the reading process was ended", died=True)
        finally:
            idle.put_nowait(process)
        self._check()
        if isinstance(answer, PageFailure):
            log.warning("page not read", engine="cpu", reason=answer.reason)
        return answer

    async def _read(self, process: ReadingProcess, page: PageImage) -> PageText | PageFailure:
        self._check()
        try:
            await self._on_thread(process, process.ready)
        except EngineUnusable as error:
            self._check()
            self._lose(f"a reading process can't be started: {error.what}")
            raise EngineLost(f"the CPU engine cannot read: {self._lost}", error.advice) from error
        self._check()
        pixels = page.pixels[: page.height, : page.width]
        return await self._on_thread(process, lambda: process.read(pixels))

    async def memory(self) -> MemorySample | None:
        """None: its processes hold no other memory than what every process has."""
        return None

    async def close(self) -> None:
        """End every process; reads in flight raise EngineLost. Idempotent."""
        self._lose("it is closed")
        ended, self._all = self._all, []
        await asyncio.gather(*(asyncio.to_thread(process.close) for process in ended))

    def _check(self) -> None:
        if self._lost is not None:
            raise EngineLost(f"the CPU engine cannot read: {self._lost}", "Start it again.")

    def _lose(self, why: str) -> None:
        self._lost = why
        for process in self._all:
            process.kill()

    async def _on_thread(self, process: ReadingProcess, work: Callable[[], T]) -> T:
        """Run a call of the process on its thread; if nobody waits for it any more, the process is killed."""
        job = asyncio.get_running_loop().run_in_executor(process.thread, work)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            process.kill()  # makes the thread come back at once
            await asyncio.gather(job, return_exceptions=True)
            raise
