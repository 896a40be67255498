"""The pool of render processes: a document or page that kills one costs that page and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from inboxd import config
from inboxd.model import Kind, Opened, PageFailure, PageImage, Refused
from inboxd.rooms.render.crew import Crew
from inboxd.rooms.render.messages import Setup, Unfit
from inboxd.rooms.render.process import RendererDied


class RenderPool:
    """Opens documents and renders pages in `workers` processes; callers beyond that wait in line.

    A page comes with its longest edge at `longest_edge` pixels (image files no larger than they are), padded white
    to multiples of `grid`. Its pixels lie in memory shared with the process, which takes it back when the last
    reference to them is gone.
    """

    def __init__(self, settings: config.Render, workers: int, longest_edge: int, grid: int) -> None:
        setup = Setup(
            parent=os.getpid(),
            memory_bytes=settings.memory_bytes,
            max_pages=settings.max_pages,
            max_pixels=settings.max_pixels,
            longest_edge=longest_edge,
            grid=grid,
        )
        self._crew = Crew(setup, workers, settings.page_timeout, settings.recycle_after)

    @property
    def deaths(self) -> int:
        """Processes that were lost since the start."""
        return self._crew.deaths

    @property
    def lacks(self) -> tuple[str, ...]:
        """What this machine can't give the processes' sandbox, in words for a person; known once they are started."""
        return self._crew.lacks

    async def start(self) -> None:
        """Start the processes.

        Raises:
            RenderUnusable: they can't be.
        """
        await self._crew.start()

    async def open(self, path: Path, kind: Kind) -> Opened | Refused:
        """Say whether a document can be read, and how many pages it has.

        Raises:
            RenderUnusable: no process can be started any more.
        """
        try:
            answer = await self._crew.ask(os.fsencode(path), kind, 0)
        except RendererDied as death:
            return Refused(f"the renderer {death} while opening it", died=True)
        if isinstance(answer, Unfit):
            return Refused(answer.reason)
        assert isinstance(answer, Opened)
        return answer

    async def render(self, path: Path, kind: Kind, number: int) -> PageImage | PageFailure:
        """Render page `number`, counted from 1. Cancelled, it is still rendered, and thrown away.

        Raises:
            RenderUnusable: no process can be started any more.
        """
        try:
            answer = await self._crew.ask(os.fsencode(path), kind, number)
        except RendererDied as death:
            return PageFailure(f"the renderer {death} while rendering page {number}", died=True)
        if isinstance(answer, Unfit):
            return PageFailure(answer.reason, permanent=answer.permanent)
        assert isinstance(answer, PageImage)
        return answer

    async def close(self) -> None:
        """End the processes. Idempotent; whoever still waits for one is cancelled."""
        await self._crew.close()
