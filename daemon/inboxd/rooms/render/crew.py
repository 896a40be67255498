"""The render processes and the line before them: replaced when they die, relieved when they have worked long."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine

import structlog

from inboxd.errors import RenderUnusable
from inboxd.model import Kind, Opened, PageImage
from inboxd.rooms.render.errands import Errand
from inboxd.rooms.render.messages import Setup, Unfit
from inboxd.rooms.render.process import RendererDied, RenderProcess

START_ATTEMPTS = 5
START_PAUSE = 1.0  # seconds after a failed start, times the failures so far

log = structlog.get_logger(__name__)


class Crew:
    """`size` processes that do errands in the order in which they are asked for."""

    def __init__(self, setup: Setup, size: int, page_timeout: float, recycle_after: int) -> None:
        self._setup = setup
        self._size = size
        self._page_timeout = page_timeout
        self._recycle_after = recycle_after
        self._line: deque[Errand] = deque()
        self._staff: list[RenderProcess] = []
        self._leaving: set[RenderProcess] = set()  # not of the staff any more, or not yet
        self._due: set[RenderProcess] = set()  # of the staff; a fresh one is on its way to take their place
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken: Exception | None = None
        self._closing = False
        self.deaths = 0
        self.lacks: tuple[str, ...] = ()

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
            self._join(start.result())
        self.lacks = self._staff[0].lacks
        if self.lacks:
            log.warning(
                "the sandbox of the renderers is incomplete: inboxd check says more", lacks="; ".join(self.lacks)
            )

    async def ask(self, path: bytes, kind: Kind, number: int) -> Opened | PageImage | Unfit:
        """Open a document (number 0) or render a page of it.

        Raises:
            RendererDied: a process died over it.
            RenderUnusable: those that died can't be replaced.
        """
        if self._broken:
            raise self._broken
        errand = Errand(path, kind, number, asyncio.get_running_loop().create_future())
        self._line.append(errand)
        self._serve()
        return await errand.answer

    async def close(self) -> None:
        """End them all. Idempotent; whoever still waits is cancelled."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        ending = {*self._staff, *self._leaving}
        self._leaving |= ending
        self._staff.clear()
        await asyncio.gather(*(process.end() for process in ending))
        for errand in self._line:
            errand.answer.cancel()
        self._line.clear()

    def _serve(self) -> None:
        """Give errands out while there are any, and hands: to whoever has least to do, best with that document open."""
        for process in self._staff:
            if process.answers >= self._recycle_after and process not in self._due:
                self._due.add(process)
                self._spawn(self._relieve(process))
        while self._line and (able := [process for process in self._staff if process.has_room]):
            errand = self._line.popleft()
            if not errand.answer.done():  # else nobody waits for it any more
                min(able, key=lambda process: (process.load, process.path != errand.path)).take(errand)

    def _ended(self, process: RenderProcess, how: str, blamed: Errand | None, others: list[Errand]) -> None:
        """A process is no more: the errands that it never began go back to the head of the line."""
        self._leaving.discard(process)
        self._due.discard(process)
        self._line.extendleft(reversed(others))
        if blamed and self._closing:
            blamed.answer.cancel()
        elif blamed and not blamed.answer.done():
            blamed.answer.set_exception(RendererDied(how))
        if process in self._staff:
            self._staff.remove(process)
            self._spawn(self._hire())
        elif not blamed:
            return  # it was relieved, or never began
        if not self._closing:
            self.deaths += 1
            log.warning("renderer lost", pid=process.pid, how=how)
        self._serve()

    async def _started(self) -> RenderProcess:
        process = RenderProcess(self._setup, self._page_timeout, self._serve, self._ended)
        self._leaving.add(process)
        await process.ready()
        return process

    def _join(self, process: RenderProcess) -> None:
        self._leaving.discard(process)
        self._staff.append(process)
        self._serve()

    async def _hire(self) -> None:
        """Fill an empty place, with some patience; without success the crew is broken."""
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._join(await self._started())
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
        if old not in self._staff:  # it was lost meanwhile, and its place is being filled
            await fresh.end()
            return
        self._staff.remove(old)
        self._leaving.add(old)
        old.retire()
        self._join(fresh)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._broken = error
            while self._line:
                errand = self._line.popleft()
                if not errand.answer.done():
                    errand.answer.set_exception(error)


def _unusable(error: Exception) -> RenderUnusable:
    how = error.strerror if isinstance(error, OSError) else f"the last one {error}"
    return RenderUnusable(
        f"no render process can be started: {how}",
        "Is there memory to spare, and is the installation whole?",
    )
