"""Image files as pages: the header first, then OpenCV (or Pillow, where it must be), then 8-bit, opaque and upright."""

from __future__ import annotations

import mmap
import os
import re
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from inboxd.core.page_size import Size, excess, fitted, reduction, with_square_pixels
from inboxd.model import Kind
from inboxd.rooms.render import boxes, by_pillow, frames, pixels, stills, tiff
from inboxd.rooms.render.decoder_words import heard, tidied
from inboxd.rooms.render.documents import Drawn, Unreadable, mapped
from inboxd.rooms.render.picture import Album, Bytes, Picture

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OWN = mmap.PROT_READ | mmap.PROT_WRITE  # a copy of our own, page by page: tiff.lead_with writes into it
_OPENCV_MEMORY = -4  # cv::Error::StsNoMem
_DAMAGE = re.compile(r"corrupt|premature|truncat|incomplete|not enough|bad code|fax|decod.*error", re.IGNORECASE)


class ImageDocument:
    """An image file; its pages are the pictures in it, or the frames of its animation."""

    def __init__(self, fd: int, kind: Kind, *, max_pages: int, max_pixels: int, longest_edge: int) -> None:
        """Read the header of the open file `fd`, which stays the caller's.

        Raises:
            Unreadable: it is corrupt, cut off, or larger than allowed.
            OSError: the file can't be read.
        """
        self._kind = kind
        self._max_pixels = max_pixels
        self._longest_edge = longest_edge
        with mapped(fd, _OWN) as data:
            self._album = album_of(data, kind, max_pages)
        self.pages = len(self._album.pictures)
        if self.pages == 1 or self._album.animated:
            self._check(self._album.pictures[0])
        self._fd = os.dup(fd)

    def draw(self, number: int) -> Drawn:
        """As `Document.draw`."""
        picture = self._album.pictures[number - 1]
        self._check(picture)
        square = with_square_pixels(picture.size, picture.x_density, picture.y_density)
        target = fitted(square.width, square.height, self._longest_edge, enlarge=False)
        heard()  # what an earlier page said is not about this one
        try:
            with mapped(self._fd, _OWN) as data:
                raw = self._decoded(data, picture, number, target)
            page = pixels.on_white(pixels.eight_bit(raw, picture.peak), multiplied=picture.multiplied)
            page = pixels.resized(page, target)
            page = pixels.rgb(pixels.upright(page, picture.orientation))
        except cv2.error as error:
            if error.code == _OPENCV_MEMORY:
                raise MemoryError from error
            raise Unreadable(_corrupt(tidied(str(error).encode()))) from error
        return Drawn(page, tuple(f"the decoder says: {line}" for line in heard() if _DAMAGE.search(line)))

    def close(self) -> None:
        """Let go of the file; nothing else is held between pages."""
        os.close(self._fd)

    def _check(self, picture: Picture) -> None:
        if reason := excess(picture.size, self.pages if self._album.animated else 1, self._max_pixels):
            raise Unreadable(reason)

    def _decoded(self, data: mmap.mmap, picture: Picture, number: int, target: Size) -> NDArray[Any]:
        if picture.directory:
            tiff.lead_with(data, picture)
        if picture.by_pillow or self._album.animated:
            return by_pillow.decoded(data, number - 1 if self._album.animated else 0)
        flags = cv2.IMREAD_UNCHANGED
        if self._kind is Kind.JPEG:
            flags = pixels.JPEG_FLAGS[reduction(picture.size, target)] | cv2.IMREAD_IGNORE_ORIENTATION
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if image is None:
            raise Unreadable(_corrupt(heard()))
        return image


def _corrupt(said: tuple[str, ...]) -> str:
    return f"corrupt: {said[0]}" if said else "corrupt: it cannot be decoded"


def album_of(data: Bytes, kind: Kind, max_pages: int) -> Album:
    """What the header of an image file says.

    Raises:
        Unreadable: it is corrupt, cut off, or has more than `max_pages`.
    """
    match kind:
        case Kind.TIFF:
            return tiff.album(data, max_pages)
        case Kind.GIF:
            return frames.gif(data, max_pages)
        case Kind.WEBP:
            return frames.webp(data, max_pages)
    still = {
        Kind.JPEG: stills.jpeg,
        Kind.PNG: stills.png,
        Kind.BMP: stills.bmp,
        Kind.PNM: stills.pnm,
        Kind.JP2: boxes.jp2,
        Kind.AVIF: boxes.avif,
    }[kind]
    return Album((still(data),))
