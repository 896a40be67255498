"""Where a worker draws: the documents last used stay open on it, and what is drawn leaves it on a sheet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import cv2

from inboxd.core.page_size import Size, padded
from inboxd.model import Kind
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

    def open(self, path: bytes, kind: Kind) -> Document:
        """The document, opened now or before; a file that has changed since is opened again."""
        where = Path(os.fsdecode(path))
        status = where.stat()
        key = (path, kind, status.st_ino, status.st_size, status.st_mtime_ns)
        document = self._open.pop(key, None)
        if document is None:
            while len(self._open) >= KEPT_OPEN:
                self._open.pop(next(iter(self._open))).close()
            document = self._opened(where, kind)
        self._open[key] = document  # the last in the row is the last to go
        return document

    def draw(self, request: RenderPage) -> PageRendered:
        """Draw a page and lay it on its sheet."""
        drawn = self.open(request.path, request.kind).draw(request.number)
        height, width = drawn.pixels.shape[:2]
        self._desk.lay(drawn.pixels, request.sheet, padded(Size(width, height), self._setup.grid))
        return PageRendered(width, height, ink(drawn.pixels), drawn.warnings)

    def _opened(self, path: Path, kind: Kind) -> Document:
        setup = self._setup
        if kind is Kind.PDF:
            return PdfDocument(
                path, max_pages=setup.max_pages, max_pixels=setup.max_pixels, longest_edge=setup.longest_edge
            )
        return ImageDocument(
            path, kind, max_pages=setup.max_pages, max_pixels=setup.max_pixels, longest_edge=setup.longest_edge
        )
