"""Headers of the formats made of boxes: JPEG 2000 and AVIF."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from inboxd.core.page_size import Size
from inboxd.rooms.render.documents import Unreadable
from inboxd.rooms.render.picture import UPRIGHT, Bytes, Picture

_MAX_BOXES = 10_000
_CODESTREAM = b"\xff\x4f\xff\x51"
_END = b"\xff\xd9"
_END_WITHIN = 16  # some writers fill up after the end mark
# (quarter turns anticlockwise, mirror axis or None) → orientation as EXIF numbers it
_TURNS = {
    (0, None): 1, (1, None): 8, (2, None): 3, (3, None): 6,
    (0, 1): 2, (1, 1): 7, (2, 1): 4, (3, 1): 5,
    (0, 0): 4, (1, 0): 5, (2, 0): 2, (3, 0): 7,
}  # fmt: skip


def jp2(data: Bytes) -> Picture:
    """The picture of a JPEG 2000 file or bare codestream.

    Raises:
        Unreadable: it is corrupt, or cut off: decoders then give white without a word.
    """
    start, end = 0, len(data)
    if data[:4] != _CODESTREAM:
        start, end = next(_found(data, (b"jp2c",), 0, len(data)), (0, 0))
        if data[start : start + 4] != _CODESTREAM:
            raise Unreadable("corrupt: this JPEG 2000 file has no picture in it")
    if len(data) < start + 42:
        raise Unreadable("corrupt: this JPEG 2000 picture is cut off")
    right, below, left, above = struct.unpack_from(">IIII", data, start + 8)
    (components,) = struct.unpack_from(">H", data, start + 40)
    if right <= left or below <= above:
        raise Unreadable("corrupt: a JPEG 2000 picture without a size")
    if end > len(data) or data.rfind(_END, max(start, end - _END_WITHIN), end) < 0:
        raise Unreadable("corrupt: this JPEG 2000 picture is cut off")
    # OpenCV can't take grey with transparency.
    return Picture(Size(right - left, below - above), by_pillow=components == 2)


def avif(data: Bytes) -> Picture:
    """The picture of an AVIF file; the first, where it is a sequence.

    Raises:
        Unreadable: it is corrupt.
    """
    meta = next(_found(data, (b"meta",), 0, len(data)), None)
    if meta is None:
        raise Unreadable("corrupt: this AVIF has no picture in it")
    width = height = turns = 0
    mirror: int | None = None
    for start, _ in _found(data, (b"iprp", b"ipco", b"ispe"), meta[0] + 4, meta[1]):
        w, h = struct.unpack_from(">II", data[start + 4 : start + 12].ljust(8, b"\0"))
        if w * h > width * height:  # others are tiles and thumbnails
            width, height = w, h
    for start, _ in _found(data, (b"iprp", b"ipco", b"irot"), meta[0] + 4, meta[1]):
        turns = data[start] & 3
    for start, _ in _found(data, (b"iprp", b"ipco", b"imir"), meta[0] + 4, meta[1]):
        mirror = data[start] & 1
    if not (width and height):
        raise Unreadable("corrupt: an AVIF picture without a size")
    return Picture(Size(width, height), _TURNS.get((turns, mirror), UPRIGHT))


def _found(data: Bytes, path: tuple[bytes, ...], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Start and end of the content of each box at `path` between `start` and `end`; its end may lie beyond the file."""
    for name, content, after in _boxes(data, start, min(end, len(data))):
        if name != path[0]:
            continue
        if len(path) == 1:
            yield content, after
        else:
            yield from _found(data, path[1:], content, after)


def _boxes(data: Bytes, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and end of content of each box from `at` to `end`."""
    for _ in range(_MAX_BOXES):
        if at + 8 > end:
            return
        length, content = int.from_bytes(data[at : at + 4], "big"), at + 8
        if length == 1:
            length, content = int.from_bytes(data[at + 8 : at + 16], "big"), at + 16
        after = len(data) if length == 0 else at + length
        if after < content:
            return
        yield data[at + 4 : at + 8], content, after
        at = after
