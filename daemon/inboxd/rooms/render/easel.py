"""Where a worker draws: the documents last used stay open on it, and a page leaves it as a raster of the right size."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np

from inboxd.core.page_size import Size, padded
from inboxd.model import Kind
from inboxd.rooms.render import raster
from inboxd.rooms.render.images import ImageDocument
from inboxd.rooms.render.ink import ink
from inboxd.rooms.render.messages import PageRendered, Setup
from inboxd.rooms.render.pdf import PdfDocument

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from inboxd.rooms.render.documents import Document

WHITE = 255
KEPT_OPEN = 2
"""Documents: the one being read, and a short one that overtakes it."""


class Easel:
    """Opens and draws within the limits of `setup`; errors are those of `Document`."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._open: dict[tuple[object, ...], Document] = {}
        largest = padded(Size(setup.longest_edge, setup.longest_edge), setup.grid)
        self.largest_raster = largest.width * largest.height * raster.CHANNELS  # bytes
        self._sheet = np.empty(self.largest_raster, np.uint8)
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

    def draw(self, path: bytes, kind: Kind, number: int) -> tuple[PageRendered, int]:
        """A page, and the descriptor of its raster, which the caller closes."""
        drawn = self.open(path, kind).draw(number)
        height, width = drawn.pixels.shape[:2]
        return PageRendered(width, height, ink(drawn.pixels), drawn.warnings), raster.made(self._padded(drawn.pixels))

    def _padded(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """`pixels` at the top left of a white sheet that fits the grid; the next page is laid on the same sheet."""
        height, width = pixels.shape[:2]
        frame = padded(Size(width, height), self._setup.grid)
        if frame == Size(width, height) and pixels.flags.c_contiguous:
            return pixels
        sheet = self._sheet[: frame.height * frame.width * raster.CHANNELS]
        sheet = sheet.reshape(frame.height, frame.width, raster.CHANNELS)
        sheet[:height, :width] = pixels
        sheet[:height, width:] = WHITE
        sheet[height:] = WHITE
        return sheet

    def _opened(self, path: Path, kind: Kind) -> Document:
        setup = self._setup
        if kind is Kind.PDF:
            return PdfDocument(path, max_pages=setup.max_pages, longest_edge=setup.longest_edge)
        return ImageDocument(
            path, kind, max_pages=setup.max_pages, max_pixels=setup.max_pixels, longest_edge=setup.longest_edge
        )
