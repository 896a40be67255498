"""The page of most PDFs from a scanner is one JPEG from edge to edge: it is decoded straight, without MuPDF.

libjpeg-turbo takes far less time for that (bench/pipeline.py). Nothing is guessed: the page must begin by placing this
one image, upright, from edge to edge, the image must be plain, and nothing else may be seen: only the hidden text that
programs lay over a scan to make it searchable. All else is MuPDF's to draw, and so is whatever the decoder here has a
complaint about.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import cv2
import numpy as np
import pymupdf

from inboxd.core.page_size import Size, excess, reduction
from inboxd.rooms.render import pixels, stills
from inboxd.rooms.render.decoder_words import heard
from inboxd.rooms.render.documents import Unreadable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SHORT = 1024  # bytes: to place one image takes no more
_NUMBER = rb"[-+]?\d*\.?\d+"
_PLACED = rb"(?:" + _NUMBER + rb"\s+){6}cm\s+(?:q\s+)*"
_BEGIN = re.compile(rb"\s*(?:q\s+)*((?:" + _PLACED + rb")+)/([\w.+-]+)\s+Do(?:\s+Q)*(?:\s+|$)")
_MATRIX = re.compile(rb"((?:" + _NUMBER + rb"\s+){6})cm")
_PLAIN_KEYS = {
    *("Type", "Subtype", "Name", "Width", "Height", "BitsPerComponent", "ColorSpace", "Filter", "Length"),
    *("Interpolate", "Intent", "Metadata"),
}
"""Of an image; any other (a mask, a decode array, a layer …) may change what is seen."""
_JPEG = ("/DCTDecode", "[/DCTDecode]")
_COLOUR = re.compile(r"/Device(?:RGB|Gray)|\[ */ICCBased (\d+) 0 R *\]")
_TURNS = {0: 1, 90: 6, 180: 3, 270: 8}  # /Rotate, degrees clockwise → the EXIF orientation that asks for the same
_ROUNDED = 2  # pixels
_OFF = 1.5  # pixels by which the image may miss the page's edge


def scan(page: pymupdf.Page, target: Size, max_pixels: int) -> NDArray[np.uint8] | None:
    """The page as height × width × RGB at `target` size if it is such a scan; None if MuPDF must draw it."""
    content = page.read_contents()
    placed = _BEGIN.match(content[:_SHORT])
    images = page.get_images(full=True) if placed else []
    if placed is None or len(images) != 1:
        return None
    xref, _, width, height, *_, name, _, referencer = images[0]
    if (
        name.encode() != placed[2]
        or referencer
        or page.parent.xref_get_key(page.xref, "Annots")[0] != "null"
        or not _fills(page, placed[1], target)
        or not _is_plain(page.parent, xref)
        or (placed.end() < len(content) and not _is_alone(page))
    ):
        return None
    return _decoded(page.parent.xref_stream_raw(xref), Size(width, height), target, page.rotation, max_pixels)


def _is_alone(page: pymupdf.Page) -> bool:
    """Whether one image is all that is painted on the page; text that is not painted may be there too."""
    painted = [what for what, _ in page.get_bboxlog() if what != "ignore-text"]
    return painted == ["fill-image"]


def _fills(page: pymupdf.Page, placing: bytes, target: Size) -> bool:
    """Whether an image so placed is upright and covers the page, no more and no less."""
    matrix = pymupdf.Matrix(1, 1)
    for numbers in _MATRIX.findall(placing):
        matrix = pymupdf.Matrix(*map(float, numbers.split())) * matrix
    if matrix.b or matrix.c or matrix.a <= 0 or matrix.d <= 0:
        return False
    where = pymupdf.Rect(0, 0, 1, 1) * matrix * page.transformation_matrix * page.rotation_matrix
    off = _OFF * max(page.rect.width, page.rect.height) / target.longest
    return all(abs(mine - its) <= off for mine, its in zip(where, page.rect, strict=True))


def _is_plain(pdf: pymupdf.Document, xref: int) -> bool:
    """Whether the image is a JPEG of grey or three colours, and no more is said of it."""
    if not _PLAIN_KEYS.issuperset(pdf.xref_get_keys(xref)) or pdf.xref_get_key(xref, "Filter")[1] not in _JPEG:
        return False
    kind, colours = pdf.xref_get_key(xref, "ColorSpace")
    if kind == "xref":
        colours = pdf.xref_object(int(colours.split()[0]), compressed=True)
    known = _COLOUR.fullmatch(colours)
    if known is None:
        return False
    # A profile is not applied: it shifts colours by a little, and nothing that is read.
    return known[1] is None or pdf.xref_get_key(int(known[1]), "N")[1] in ("1", "3")


def _decoded(data: bytes, stored: Size, target: Size, rotation: int, max_pixels: int) -> NDArray[np.uint8] | None:
    lying = Size(target.height, target.width) if rotation in (90, 270) else target
    try:
        if stills.jpeg(data).size != stored or excess(stored, 1, max_pixels):
            return None
        heard()  # what an earlier page said is not about this one
        flags = pixels.JPEG_FLAGS[reduction(stored, lying, reserve=1)] | cv2.IMREAD_IGNORE_ORIENTATION
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if image is None or heard():
            return None
        page = pixels.trimmed(pixels.eight_bit(image), lying, _ROUNDED)
        return pixels.rgb(pixels.upright(page, _TURNS[rotation]))
    except (Unreadable, cv2.error, KeyError):
        return None
