"""TIFF directories: the pages of a TIFF file, and the orientation tag, which EXIF keeps in a small TIFF of its own."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass

from inboxd.core.page_size import Size
from inboxd.rooms.render.documents import Unreadable
from inboxd.rooms.render.picture import UPRIGHT, Album, Bytes, Picture

_SUBFILE, _WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 254, 256, 257, 258, 259, 262
_ORIENTATION, _SAMPLES, _X_DENSITY, _Y_DENSITY, _EXTRA = 274, 277, 282, 283, 338
_WANTED = {_SUBFILE, _WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC, _ORIENTATION, _SAMPLES}
_WANTED |= {_X_DENSITY, _Y_DENSITY, _EXTRA}
_REDUCED = 1  # bit of _SUBFILE: a thumbnail or a level of a pyramid, not a page
_GREY = (0, 1)
_ASSOCIATED = 1  # value of _EXTRA: colours are stored weakened by their transparency
_FOR_PILLOW = {34925, 50000}  # LZMA, Zstandard: OpenCV's libtiff is built without them
_UNSUPPORTED = {50001: "WebP", 50002: "JPEG XL", 34887: "LERC", 34712: "JPEG 2000", 33003: "JPEG 2000", 34661: "JBIG"}
_INTEGERS = {1: "B", 3: "H", 4: "I", 16: "Q"}
_RATIONAL = 5
_MAX_TAGS = 4096  # real directories have some dozens


@dataclass(frozen=True, slots=True)
class _Field:
    """A tag's first value, and where in the file it lies."""

    value: float
    at: int


@dataclass(frozen=True, slots=True)
class _Layout:
    """Byte order, and the widths in which TIFF and BigTIFF differ."""

    order: str
    big: bool

    @property
    def offset(self) -> str:
        return "Q" if self.big else "I"

    @property
    def first(self) -> int:
        """Where the header says where the first directory lies."""
        return 8 if self.big else 4

    def number(self, data: Bytes, at: int, code: str) -> int:
        try:
            return int(struct.unpack_from(self.order + code, data, at)[0])
        except (struct.error, OverflowError) as error:
            raise Unreadable("corrupt: a TIFF directory lies beyond the end of the file") from error


def album(data: Bytes, max_pages: int) -> Album:
    """The pages of a TIFF file; thumbnails and reduced copies among them are left out.

    Raises:
        Unreadable: it is corrupt, its pages go in a circle or are more than `max_pages`, or its compression is unknown.
    """
    layout = _layout(data)
    pages: list[Picture] = []
    reduced: list[Picture] = []
    seen: set[int] = set()
    at = layout.number(data, layout.first, layout.offset)
    while at:
        if at in seen:
            raise Unreadable("corrupt: the pages of this TIFF go in a circle")
        seen.add(at)
        fields, following = _directory(data, at, layout)
        (reduced if int(_value(fields, _SUBFILE)) & _REDUCED else pages).append(_picture(fields, at))
        if len(pages) > max_pages:
            raise Unreadable(f"too many pages: more than the {max_pages:,} allowed (max_pages)")
        at = following
    if not seen:
        raise Unreadable("no pages: this TIFF has no directory")
    return Album(tuple(pages or reduced))


def orientation(exif: bytes) -> int:
    """The orientation that an EXIF block asks for; upright where it asks for none or is broken."""
    block = exif.removeprefix(b"Exif\0\0")
    try:
        layout = _layout(block)
        fields, _ = _directory(block, layout.number(block, layout.first, layout.offset), layout)
    except Unreadable:
        return UPRIGHT
    return _turn(fields)


def lead_with(data: mmap.mmap, page: Picture) -> None:
    """Make `page` the first of the file in memory and call it upright.

    Decoders reach any page at once that way, and none turns it: OpenCV can't turn 1-bit pages.
    """
    layout = _layout(data)
    struct.pack_into(layout.order + layout.offset, data, layout.first, page.directory)
    if page.orientation_at:
        struct.pack_into(layout.order + "H", data, page.orientation_at, UPRIGHT)


def _layout(data: Bytes) -> _Layout:
    match data[:4]:
        case b"II*\0" | b"II+\0" as magic:
            return _Layout("<", big=magic[2:3] == b"+")
        case b"MM\0*" | b"MM\0+" as magic:
            return _Layout(">", big=magic[3:4] == b"+")
    raise Unreadable("corrupt: this is no TIFF header")


def _directory(data: Bytes, at: int, layout: _Layout) -> tuple[dict[int, _Field], int]:
    """The wanted fields of a directory, and where the next one lies (0: none)."""
    count = layout.number(data, at, "Q" if layout.big else "H")
    if count > _MAX_TAGS:
        raise Unreadable(f"corrupt: a TIFF directory claims {count:,} tags")
    entry, step, inline = (at + 8, 20, 12) if layout.big else (at + 2, 12, 8)
    fields: dict[int, _Field] = {}
    for start in range(entry, entry + count * step, step):
        tag, kind = layout.number(data, start, "H"), layout.number(data, start + 2, "H")
        if tag in _WANTED and (field := _field(data, start + 4, start + inline, kind, layout)):
            fields[tag] = field
    return fields, layout.number(data, entry + count * step, layout.offset)


def _field(data: Bytes, count_at: int, value_at: int, kind: int, layout: _Layout) -> _Field | None:
    if kind == _RATIONAL:
        where = value_at if layout.big else layout.number(data, value_at, "I")
        if where + 8 > len(data):
            return None
        below = layout.number(data, where + 4, "I")
        return _Field(layout.number(data, where, "I") / below if below else 0, where)
    if kind not in _INTEGERS:
        return None
    code = _INTEGERS[kind]
    span = struct.calcsize(code) * layout.number(data, count_at, layout.offset)
    where = value_at if span <= struct.calcsize(layout.offset) else layout.number(data, value_at, layout.offset)
    return _Field(layout.number(data, where, code), where) if where + struct.calcsize(code) <= len(data) else None


def _value(fields: dict[int, _Field], tag: int, default: float = 0) -> float:
    return fields[tag].value if tag in fields else default


def _turn(fields: dict[int, _Field]) -> int:
    turn = int(_value(fields, _ORIENTATION, UPRIGHT))
    return turn if 1 <= turn <= 8 else UPRIGHT


def _picture(fields: dict[int, _Field], at: int) -> Picture:
    width, height = int(_value(fields, _WIDTH)), int(_value(fields, _HEIGHT))
    if not (width and height):
        raise Unreadable("corrupt: a page of this TIFF has no size")
    compression = int(_value(fields, _COMPRESSION, 1))
    if compression in _UNSUPPORTED:
        raise Unreadable(
            f"this TIFF is compressed with {_UNSUPPORTED[compression]}, which is not supported: convert it"
        )
    grey = int(_value(fields, _PHOTOMETRIC)) in _GREY
    bits = int(_value(fields, _BITS, 1))
    by_pillow = compression in _FOR_PILLOW or (grey and bits == 8 and _value(fields, _SAMPLES, 1) == 2)
    return Picture(
        Size(width, height),
        orientation=_turn(fields),
        x_density=_value(fields, _X_DENSITY),
        y_density=_value(fields, _Y_DENSITY),
        # Libtiff hands out 8-bit colours that way whatever the file has, and Pillow never does.
        multiplied=not by_pillow and (bits == 8 or _value(fields, _EXTRA) == _ASSOCIATED),
        by_pillow=by_pillow,
        directory=at,
        orientation_at=fields[_ORIENTATION].at if _ORIENTATION in fields else 0,
    )
