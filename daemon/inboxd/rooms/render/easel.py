"""Where a worker draws: the documents last used stay open on it, and what is drawn leaves it on a sheet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import cv2

from inboxd.core.page_size import Size, padded
from inboxd.model import Kind
from inboxd.rooms.render.decoder_words import heard
from inboxd.rooms.render.images import ImageDocument
from inboxd.rooms.render.ink import ink
from inboxd.rooms.render.messages import PageRendered, RenderPage, Setup
from inboxd.rooms.render.pdf import PdfDocument
from inboxd.rooms.render.sheets import Desk, sheet_bytes

if TYPE_CHECKING:
    from inboxd.rooms.render.documents import Document

KEPT_OPEN = 2
"""Documents: the one being read, and a short one that overtakes it."""


class Easel:
    """Opens and draws within the limits of `setup`; errors are those of `Document`."""

    def __init__(self, setup: Setup, sheets: int) -> None:
        """`sheets` is the descriptor of the memory for finished pages."""
        self._setup = setup
        self._desk = Desk(sheets, sheet_bytes(setup.longest_edge, setup.grid))
        self._open: dict[tuple[object, ...], Document] = {}
        cv2.setNumThreads(1)  # the cores are for the other workers
        heard()  # what was said while loading is about no document; and it looks once where it listens

    def open(self, fd: int, kind: Kind) -> Document:
        """The document in the open file `fd`, which stays the caller's; a file that has changed is opened again."""
        status = os.fstat(fd)
        key = (kind, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        document = self._open.pop(key, None)
        if document is None:
            while len(self._open) >= KEPT_OPEN:
                self._open.pop(next(iter(self._open))).close()
            document = self._opened(fd, kind)
        self._open[key] = document  # the last in the row is the last to go
        return document

    def draw(self, fd: int, request: RenderPage) -> PageRendered:
        """Draw a page of the document in `fd`, and lay it on its sheet."""
        drawn = self.open(fd, request.kind).draw(request.number)
        height, width = drawn.pixels.shape[:2]
        self._desk.lay(drawn.pixels, request.sheet, padded(Size(width, height), self._setup.grid))
        return PageRendered(width, height, ink(drawn.pixels), drawn.warnings)

    def _opened(self, fd: int, kind: Kind) -> Document:
        setup = self._setup
        if kind is Kind.PDF:
            return PdfDocument(
                fd, max_pages=setup.max_pages, max_pixels=setup.max_pixels, longest_edge=setup.longest_edge
            )
        return ImageDocument(
            fd, kind, max_pages=setup.max_pages, max_pixels=setup.max_pixels, longest_edge=setup.longest_edge
        )
