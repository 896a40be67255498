"""Headers of GIF and WebP, which can hold frames: each frame is a page, as it looks once it is drawn."""

from __future__ import annotations

import struct

from inboxd.core.page_size import Size
from inboxd.rooms.render import tiff
from inboxd.rooms.render.documents import Unreadable
from inboxd.rooms.render.picture import UPRIGHT, Album, Bytes, Picture

_GIF_IMAGE, _GIF_EXTENSION, _GIF_END = 0x2C, 0x21, 0x3B


def gif(data: Bytes, max_pages: int) -> Album:
    """The frames of a GIF.

    Raises:
        Unreadable: it is corrupt, cut off, or has no or too many frames.
    """
    frames = 0
    try:
        width, height, flags = struct.unpack_from("<HHB", data, 6)
        at = 13 + _palette(flags)
        while (block := data[at]) != _GIF_END:
            if block == _GIF_IMAGE:
                # A frame may lie beyond the canvas that the file declares: readers then grow it.
                x, y, w, h, flags = struct.unpack_from("<HHHHB", data, at + 1)
                width, height = max(width, x + w), max(height, y + h)
                at = _after_blocks(data, at + 11 + _palette(flags))
                frames += 1
                if frames > max_pages:
                    raise Unreadable(f"too many pages: more than the {max_pages:,} allowed (max_pages)")
            elif block == _GIF_EXTENSION:
                at = _after_blocks(data, at + 2)
            else:
                raise Unreadable("corrupt: this GIF has rubbish between its frames")
    except (struct.error, IndexError) as error:
        raise Unreadable("corrupt: this GIF is cut off") from error
    return _frames(width, height, frames, UPRIGHT)


def webp(data: Bytes, max_pages: int) -> Album:
    """The frames of a WebP, or its only picture.

    Raises:
        Unreadable: it is corrupt, cut off, or has too many frames.
    """
    end = int.from_bytes(data[4:8], "little") + 8
    if end > len(data):
        raise Unreadable("corrupt: this WebP is cut off")
    width = height = frames = 0
    turn = UPRIGHT
    at = 12
    while at + 8 <= end:
        name, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        body = data[at + 8 : at + 8 + min(length, 10)]
        if name == b"VP8X" and len(body) == 10:
            width, height = (int.from_bytes(body[i : i + 3], "little") + 1 for i in (4, 7))
        elif name == b"VP8 " and len(body) == 10 and not width:
            width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", body, 6))
        elif name == b"VP8L" and len(body) >= 5 and not width:
            bits = int.from_bytes(body[1:5], "little")
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        elif name == b"ANMF":
            frames += 1
        elif name == b"EXIF":
            turn = tiff.orientation(data[at + 8 : at + 8 + length])
        at += 8 + length + length % 2
    if frames > max_pages:
        raise Unreadable(f"too many pages: {frames:,}, and {max_pages:,} are allowed (max_pages)")
    return _frames(width, height, max(frames, 1), turn)


def _frames(width: int, height: int, frames: int, turn: int) -> Album:
    if not (width and height and frames):
        raise Unreadable("corrupt: there is no picture in it")
    return Album((Picture(Size(width, height), turn),) * frames, animated=frames > 1)


def _palette(flags: int) -> int:
    """Bytes of the colour table that a GIF's flags announce."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _after_blocks(data: Bytes, at: int) -> int:
    """Where a chain of GIF data blocks ends.

    Raises:
        IndexError: beyond the end of the file.
    """
    while length := data[at]:
        at += length + 1
    return at + 1
