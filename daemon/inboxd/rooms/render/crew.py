"""The render processes that are there to be asked: replaced when they die, relieved when they have worked long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import structlog

from inboxd.errors import RenderUnusable
from inboxd.rooms.render.messages import Setup
from inboxd.rooms.render.process import RendererDied, RenderProcess

START_ATTEMPTS = 5
START_PAUSE = 1.0  # seconds after a failed start, times the failures so far

log = structlog.get_logger(__name__)


class Crew:
    """`size` processes, each taken, asked once, and given back or reported lost."""

    def __init__(self, setup: Setup, size: int, recycle_after: int) -> None:
        self._setup = setup
        self._size = size
        self._recycle_after = recycle_after
        self._all: set[RenderProcess] = set()
        self._idle: list[RenderProcess] = []
        self._free = asyncio.Semaphore(0)  # as many as are idle
        self._busy: set[RenderProcess] = set()
        self._due: set[RenderProcess] = set()  # a fresh one is on its way to take their place
        self._relieved: set[RenderProcess] = set()  # busy for the last time
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken: BaseException | None = None
        self.deaths = 0

    async def start(self) -> None:
        """Start them all.

        Raises:
            RenderUnusable: one can't be.
        """
        try:
            async with asyncio.TaskGroup() as group:
                starts = [group.create_task(self._started()) for _ in range(self._size)]
        except BaseException as error:
            await self.close()
            if isinstance(error, ExceptionGroup) and (known := error.subgroup((RendererDied, OSError))):
                raise _unusable(known.exceptions[0]) from error
            raise
        for start in starts:
            self._add(start.result())

    async def take(self, path: bytes) -> RenderProcess:
        """A process with nothing to do: if there is one that has `path` open, that one.

        Raises:
            RenderUnusable: those that died can't be replaced.
        """
        while True:
            await self._free.acquire()
            if self._broken:
                self._free.release()  # for the next in line
                raise self._broken
            process = next((process for process in self._idle if process.path == path), self._idle[0])
            self._idle.remove(process)
            if process.alive:
                self._busy.add(process)
                return process
            self.lost(process, "died while it had nothing to do")

    def give_back(self, process: RenderProcess) -> None:
        """It has answered, and can be asked again."""
        self._busy.discard(process)
        if process in self._relieved:
            self._spawn(self._dismiss(process))
            return
        if process.answers >= self._recycle_after and process not in self._due:
            self._due.add(process)
            self._spawn(self._relieve(process))
        self._add(process)

    def lost(self, process: RenderProcess, how: str) -> None:
        """It is dead, or must die; another takes its place."""
        self.deaths += 1
        log.warning("renderer lost", pid=process.pid, how=how)
        self.drop(process)

    def drop(self, process: RenderProcess) -> None:
        """Nobody wants its answer any more, so it can't be asked again; another takes its place."""
        self._busy.discard(process)
        self._spawn(self._dismiss(process))
        if process not in self._relieved:
            self._spawn(self._hire())

    async def close(self) -> None:
        """End them all. Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(self._dismiss(process) for process in list(self._all)))
        self._idle.clear()

    def _add(self, process: RenderProcess) -> None:
        self._idle.append(process)
        self._free.release()

    async def _started(self) -> RenderProcess:
        process = RenderProcess(self._setup)
        self._all.add(process)
        try:
            await process.ready()
        except RendererDied:
            self._all.discard(process)
            raise
        return process

    async def _hire(self) -> None:
        """Fill an empty place, with some patience; without success the crew is broken."""
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._add(await self._started())
                return
            except (RendererDied, OSError) as error:
                log.warning("renderer does not start", attempt=attempt, how=str(error))
                failure = error
            await asyncio.sleep(START_PAUSE * attempt)
        raise _unusable(failure)

    async def _relieve(self, old: RenderProcess) -> None:
        """Let a fresh process take the place of `old`, which works on until then."""
        try:
            fresh = await self._started()
        except (RendererDied, OSError) as error:
            log.warning("renderer does not start, the old one stays", how=str(error))
            await asyncio.sleep(START_PAUSE)
            self._due.discard(old)
            return
        if old in self._idle:
            self._idle[self._idle.index(old)] = fresh
            await self._dismiss(old)
        elif old in self._busy:
            self._relieved.add(old)
            self._add(fresh)
        else:  # it was lost meanwhile, and its place is being filled
            await self._dismiss(fresh)

    async def _dismiss(self, process: RenderProcess) -> None:
        await process.end()
        self._all.discard(process)
        self._relieved.discard(process)
        self._due.discard(process)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._broken = error
            self._free.release()


def _unusable(error: Exception) -> RenderUnusable:
    how = error.strerror if isinstance(error, OSError) else f"the last one {error}"
    return RenderUnusable(
        f"no render process can be started: {how}",
        "Is there memory to spare, and is the installation whole?",
    )
