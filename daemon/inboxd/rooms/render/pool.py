"""The pool of render processes: a document or page that kills one costs that page and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from inboxd import config
from inboxd.core.page_size import Size, padded
from inboxd.core.showing import one_line
from inboxd.model import Kind, Opened, PageFailure, PageImage, Refused
from inboxd.rooms.render import raster
from inboxd.rooms.render.crew import Crew
from inboxd.rooms.render.messages import (
    DocumentOpened,
    Exhausted,
    OpenDocument,
    PageRendered,
    RenderPage,
    Reply,
    Request,
    Setup,
    Unfit,
)
from inboxd.rooms.render.process import RendererDied


class RenderPool:
    """Opens documents and renders pages in `workers` processes; callers beyond that wait in line.

    A page comes with its longest edge at `longest_edge` pixels (image files no larger than they are), padded white
    to multiples of `grid`. Its memory is anonymous and shared, and freed with the last reference to its pixels.
    """

    def __init__(self, settings: config.Render, workers: int, longest_edge: int, grid: int) -> None:
        self._settings = settings
        self._setup = Setup(
            parent=os.getpid(),
            memory_bytes=settings.memory_bytes,
            max_pages=settings.max_pages,
            max_pixels=settings.max_pixels,
            longest_edge=longest_edge,
            grid=grid,
        )
        self._crew = Crew(self._setup, workers, settings.recycle_after)

    @property
    def deaths(self) -> int:
        """Processes that were lost since the start."""
        return self._crew.deaths

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
            answer = await self._ask(OpenDocument(os.fsencode(path), kind))
        except RendererDied as death:
            return Refused(f"the renderer {death} while opening it", died=True)
        if isinstance(answer, Unfit):
            return Refused(one_line(answer.reason))
        assert isinstance(answer, Opened)
        return answer

    async def render(self, path: Path, kind: Kind, number: int) -> PageImage | PageFailure:
        """Render page `number`, counted from 1.

        Raises:
            RenderUnusable: no process can be started any more.
        """
        try:
            answer = await self._ask(RenderPage(os.fsencode(path), kind, number))
        except RendererDied as death:
            return PageFailure(f"the renderer {death} while rendering page {number}", died=True)
        if isinstance(answer, Unfit):
            return PageFailure(one_line(answer.reason), permanent=answer.permanent)
        assert isinstance(answer, PageImage)
        return answer

    async def close(self) -> None:
        """End the processes. Idempotent; nothing may be in their hands any more."""
        await self._crew.close()

    async def _ask(self, request: Request) -> Opened | PageImage | Unfit:
        """The answer to `request`, in its own kind.

        Raises:
            RendererDied: the process did, or has to.
            RenderUnusable: as above.
        """
        process = await self._crew.take(request.path)
        try:
            reply, descriptor = await process.ask(request, self._settings.page_timeout)
            answer = self._understood(request, reply, descriptor)
        except RendererDied as death:
            self._crew.lost(process, str(death))
            raise
        except BaseException:  # cancelled: what it is working on must not be taken for the answer to another's question
            self._crew.drop(process)
            raise
        self._crew.give_back(process)
        return answer

    def _understood(self, request: Request, reply: Reply, descriptor: int | None) -> Opened | PageImage | Unfit:
        """What a reply says, if it can be one to `request`. A hostile file may be speaking: nothing is taken on trust.

        Raises:
            RendererDied: it can't, or it is a farewell.
        """
        if isinstance(request, RenderPage) and isinstance(reply, PageRendered) and descriptor is not None:
            size = Size(reply.width, reply.height)
            try:
                pixels = raster.taken(descriptor, padded(size, self._setup.grid))
            except ValueError as error:
                raise RendererDied(f"gave an image that is none ({error})") from error
            if size.longest <= self._setup.longest_edge:
                warnings = tuple(one_line(warning) for warning in reply.warnings)
                return PageImage(pixels, size.width, size.height, reply.ink, warnings)
        elif descriptor is not None:
            os.close(descriptor)
        if isinstance(request, OpenDocument) and isinstance(reply, DocumentOpened):
            return Opened(reply.pages)
        if isinstance(reply, Unfit):
            return reply
        if isinstance(reply, Exhausted):
            allowed = f" (memory_bytes = {self._settings.memory_bytes:,})" if reply.what == "memory" else ""
            raise RendererDied(f"ran out of {one_line(reply.what)}{allowed}")
        raise RendererDied("gave an answer to another question")
