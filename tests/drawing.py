"""Pages as the render room would draw them, without its processes."""

from __future__ import annotations

from pathlib import Path

from inboxd.model import Kind, PageImage
from inboxd.rooms.render.documents import Document
from inboxd.rooms.render.images import ImageDocument
from inboxd.rooms.render.ink import ink
from inboxd.rooms.render.pdf import PdfDocument

LONGEST_EDGE = 1540
KINDS = {".pdf": Kind.PDF, ".png": Kind.PNG, ".jpg": Kind.JPEG, ".tif": Kind.TIFF}


def pages(path: Path, longest_edge: int = LONGEST_EDGE) -> list[PageImage]:
    """Every page of a trusted file; its kind is taken from its name."""
    kind = KINDS[path.suffix]
    document: Document
    with path.open("rb") as file:
        fd = file.fileno()
        if kind is Kind.PDF:
            document = PdfDocument(fd, max_pages=100, max_pixels=10**8, longest_edge=longest_edge)
        else:
            document = ImageDocument(fd, kind, max_pages=100, max_pixels=10**8, longest_edge=longest_edge)
    try:
        drawn = [document.draw(number + 1).pixels for number in range(document.pages)]
    finally:
        document.close()
    return [PageImage(pixels, pixels.shape[1], pixels.shape[0], ink(pixels)) for pixels in drawn]
