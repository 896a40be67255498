"""PDF pages by MuPDF, drawn straight to the model's size; turns, crops, units, forms and notes are heeded."""

from __future__ import annotations

import codecs
import mmap
import os
import re
from typing import TYPE_CHECKING

import numpy as np
import pymupdf

from inboxd.core.page_size import Size, fitted
from inboxd.core.showing import one_line
from inboxd.core.verdict import NO_IMAGE_DRAWN, NO_TEXT_DRAWN
from inboxd.rooms.render.documents import Drawn, Unreadable, mapped
from inboxd.rooms.render.scan import scan

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST = 2**31 - 1  # bytes: MuPDF 1.28 crashes when it looks for the end of a longer file in memory
_PROBED = 32  # pages of which one must load, or the document is broken
_COVERS = 0.5  # of the page: an image that large is what the page is about
_STAMPED = 0.01  # of the page: what a page number or a stamp covers at most, beside an image that is not there
_SILENT = ("JPXDecode", "JBIG2Decode")  # a broken stream of these can come out white without a word
_BLANK_BYTES, _BLANK_PIXELS = 2048, 4000  # a white picture takes fewer bytes than the first, and one for so many pixels
_CJK = re.compile(r"(-RKSJ-|UniJIS|UniGB|UniCNS|UniKS|^GB|^KSC|^B5|^ETen|^EUC|^Identity)")
_LINES = 5
_LINE = 200  # characters
# What MuPDF says when something of the page may be missing; its other complaints are about what it mended.
_LOST = re.compile(
    r"page may not be correct|image|openjpeg|jbig2|jpeg|library error|read error|cannot (find|decode|draw)"
    r"|unknown filter|font dict|missing font|recursive|premature end|cycle",
    re.IGNORECASE,
)
_ERRORS = (RuntimeError, ValueError, pymupdf.mupdf.FzErrorBase)

codecs.lookup("raw_unicode_escape")  # PyMuPDF looks it up late, when nothing can be loaded any more
pymupdf.TOOLS.mupdf_display_errors(False)
pymupdf.TOOLS.mupdf_display_warnings(False)


class PdfDocument:
    """A PDF; scripts, links, launch actions and attachments in it are left alone."""

    def __init__(self, fd: int, *, max_pages: int, max_pixels: int, longest_edge: int) -> None:
        """Open the file `fd`, which stays the caller's, mending what can be mended.

        `max_pixels` bounds an image that is decoded without MuPDF, which decodes larger ones in strips.

        Raises:
            Unreadable: it is encrypted, corrupt, without pages, of too many, or no PDF at all.
            OSError: the file can't be read.
        """
        self._max_pixels = max_pixels
        self._longest_edge = longest_edge
        self._pdf = _opened(fd)
        try:
            self.pages = self._counted(max_pages)
            self._notes = self._about()
        except Unreadable:
            self.close()
            raise

    def draw(self, number: int) -> Drawn:
        """As `Document.draw`."""
        pymupdf.TOOLS.reset_mupdf_warnings()
        try:
            page = self._pdf.load_page(number - 1)
            shown = page.rect
            size = fitted(shown.width, shown.height, self._longest_edge, enlarge=True)
            raster = scan(page, size, self._max_pixels)
            if raster is None:
                raster = _drawn(page, size)
            warnings = self._warnings(page, number, raster)
        except pymupdf.mupdf.FzErrorSystem as error:
            raise MemoryError from error  # the only system call that fails here is malloc
        except _ERRORS as error:
            raise Unreadable(f"corrupt: {_said(error)}") from error
        return Drawn(raster[: size.height, : size.width], warnings)

    def close(self) -> None:
        """Free the document, and what MuPDF keeps of it."""
        self._pdf.close()
        pymupdf.TOOLS.store_shrink(100)

    def _counted(self, max_pages: int) -> int:
        """Its pages, of which at least one can be found."""
        if self._pdf.needs_pass:
            raise Unreadable("encrypted: a password is needed to open it")
        if not self._pdf.is_pdf:
            raise Unreadable(f"not a PDF: it holds {(self._pdf.metadata or {}).get('format') or 'something else'}")
        try:
            pages = int(self._pdf.page_count)
        except _ERRORS as error:
            raise Unreadable(f"corrupt: {_said(error)}") from error
        if pages < 1:
            raise Unreadable("no pages: this PDF is empty or corrupt")
        if pages > max_pages:
            raise Unreadable(f"too many pages: {pages:,}, and {max_pages:,} are allowed (max_pages)")
        for index in range(min(pages, _PROBED)):
            try:
                self._pdf.load_page(index)
            except _ERRORS as error:
                failure = _said(error)  # the error itself would keep the document open
            else:
                return pages
        raise Unreadable(f"corrupt: none of its pages can be found ({failure})")

    def _about(self) -> list[str]:
        """What to say of the whole document, with its first page."""
        notes = []
        catalog = self._pdf.pdf_catalog()
        if (
            self._pdf.xref_get_key(catalog, "AcroForm/XFA")[0] != "null"
            or self._pdf.xref_get_key(catalog, "NeedsRendering")[1] == "true"
        ):
            notes.append("this is an XFA form: the page may only say that another program is needed")
        if files := self._pdf.embfile_count():
            notes.append(f"{files} attached file{'s' * (files > 1)} not read")
        return notes

    def _warnings(self, page: pymupdf.Page, number: int, raster: NDArray[np.uint8]) -> tuple[str, ...]:
        blank = _is_one_colour(raster)
        said = dict.fromkeys(
            one_line(line)[:_LINE] for line in pymupdf.TOOLS.mupdf_warnings().splitlines() if _LOST.search(line)
        )
        warnings = [f"MuPDF says: {line}" for line in said][:_LINES]
        if blank and page.get_text().strip():
            warnings.insert(0, NO_TEXT_DRAWN)
        lost = warnings or self._holds_silent_image(page) if blank else warnings and _is_hardly_drawn_on(raster)
        if lost and _is_covered(page):
            warnings.insert(0, NO_IMAGE_DRAWN)
        if number == 1:  # what goes for the whole document, or mostly does
            warnings += [
                f"the font {one_line(name)[:_LINE]} is not embedded: a substitute was drawn"
                for _, extension, kind, name, _, encoding, *_ in page.get_fonts()
                if extension == "n/a" and kind == "Type0" and _CJK.search(encoding)
            ][:_LINES]
            warnings += self._notes
            if self._pdf.is_repaired:
                warnings.append("this PDF is damaged: what could be repaired is shown")
        return tuple(warnings)

    def _holds_silent_image(self, page: pymupdf.Page) -> bool:
        """Whether the page has an image that says too much to be white, in a format that fails silently."""
        for xref, _, width, height, *_, codec, _ in page.get_images(full=True):
            length = self._pdf.xref_get_key(xref, "Length")[1]
            if codec in _SILENT and length.isdigit() and int(length) > _BLANK_BYTES + width * height / _BLANK_PIXELS:
                return True
        return False


def _drawn(page: pymupdf.Page, size: Size) -> NDArray[np.uint8]:
    """The page as MuPDF draws it: height × width × RGB, a pixel more than `size` at times."""
    zoom = pymupdf.Matrix(size.width / page.rect.width, size.height / page.rect.height)
    image = page.get_pixmap(matrix=zoom, colorspace=pymupdf.csRGB, alpha=False, annots=True)
    return np.asarray(_Samples(image))


class _Samples:
    """A pixmap's memory for numpy, which keeps this object, and so the pixmap, as long as an array looks into it."""

    def __init__(self, pixmap: pymupdf.Pixmap) -> None:
        self._pixmap = pixmap
        self.__array_interface__ = {
            "version": 3,
            "shape": (pixmap.height, pixmap.width, 3),
            "strides": (pixmap.stride, 3, 1),
            "typestr": "|u1",
            "data": (pixmap.samples_ptr, True),
        }


def _opened(fd: int) -> pymupdf.Document:
    size = os.fstat(fd).st_size
    if size > _LARGEST:
        raise Unreadable(f"too large: a PDF of {size:,} bytes, {size - _LARGEST:,} more than can be read")
    pymupdf.TOOLS.reset_mupdf_warnings()
    try:
        pdf = pymupdf.open(stream=memoryview(mapped(fd, mmap.PROT_READ)), filetype="pdf")
    except pymupdf.mupdf.FzErrorSystem as error:
        raise MemoryError from error
    except _ERRORS as error:
        said = re.search(r"(?:format|syntax|library|argument) error: ([^\n]+)", pymupdf.TOOLS.mupdf_warnings())
        raise Unreadable(f"corrupt: no PDF can be made out in it{f' ({said[1]})' if said else ''}") from error
    return pdf


def _is_one_colour(raster: NDArray[np.uint8]) -> bool:
    """Whether nothing at all was drawn; a look at some pixels settles it for most pages."""
    ground = raster[0, 0]
    return bool((raster[::64, ::64] == ground).all() and (raster == ground).all())


def _is_hardly_drawn_on(raster: NDArray[np.uint8]) -> bool:
    """Whether next to nothing was drawn: a page number or a stamp, but no page."""
    sample = raster[::4, ::4]
    return bool((sample != raster[0, 0]).any(axis=2).mean() < _STAMPED)


def _is_covered(page: pymupdf.Page) -> bool:
    area = page.rect.get_area()
    return any((pymupdf.Rect(info["bbox"]) & page.rect).get_area() >= _COVERS * area for info in page.get_image_info())


def _said(error: Exception) -> str:
    """MuPDF's words, without its numbers."""
    return one_line(re.sub(r"^code=\d+: ", "", str(error)))[:_LINE]
