"""What a render process is asked, and what its replies are worth: a hostile file may be speaking."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from inboxd.core.page_size import Size, padded
from inboxd.core.showing import one_line
from inboxd.model import Kind, Opened, PageImage
from inboxd.rooms.render.messages import (
    DocumentOpened,
    OpenDocument,
    PageRendered,
    RenderPage,
    Reply,
    Request,
    Setup,
    Unfit,
)
from inboxd.rooms.render.sheets import Sheets


class Nonsense(Exception):
    """A reply that a worker in its right mind would not give."""


@dataclass(eq=False, slots=True)
class Errand:
    """A document to open (number 0) or a page to render, and what came of it."""

    path: bytes
    kind: Kind
    number: int
    answer: asyncio.Future[Opened | PageImage | Unfit]
    sheet: int | None = None  # on which the page is to lie

    def open(self) -> int:
        """A descriptor of the document, which goes with the request.

        Raises:
            OSError: it can't be opened.
        """
        # It may be any file, of `inboxd ocr`: a pipe that nobody writes to must not be waited for.
        return os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)

    def request(self, sheets: Sheets) -> Request:
        """The request; a page takes one of the free sheets."""
        if not self.number:
            return OpenDocument(self.kind)
        self.sheet = sheets.take()
        return RenderPage(self.kind, self.number, self.sheet)

    def understood(self, reply: Reply, sheets: Sheets, setup: Setup) -> Opened | PageImage | Unfit:
        """The answer that a reply holds.

        Raises:
            Nonsense: it holds none to this errand, or one beyond what `setup` allows.
        """
        if isinstance(reply, DocumentOpened) and self.sheet is None:
            return Opened(reply.pages)
        if isinstance(reply, Unfit):
            if self.sheet is not None:
                sheets.give_back(self.sheet)
            return Unfit(one_line(reply.reason), reply.permanent)
        if isinstance(reply, PageRendered) and self.sheet is not None:
            size = Size(reply.width, reply.height)
            if size.longest <= setup.longest_edge:
                pixels = sheets.page(self.sheet, padded(size, setup.grid))
                warnings = tuple(one_line(warning) for warning in reply.warnings)
                return PageImage(pixels, size.width, size.height, reply.ink, warnings)
        raise Nonsense
