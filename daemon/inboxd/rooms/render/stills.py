"""Headers of the formats that hold one picture: JPEG, PNG, BMP, PNM."""

from __future__ import annotations

import re
import struct

from inboxd.core.page_size import Size
from inboxd.rooms.render import tiff
from inboxd.rooms.render.documents import Unreadable
from inboxd.rooms.render.picture import UPRIGHT, Bytes, Picture

_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # SOF0 to SOF15 without DHT, JPG and DAC
_STANDALONE = frozenset({0x01, *range(0xD0, 0xD9)})  # markers without a length
_SOS, _EOI, _APP0, _APP1 = 0xDA, 0xD9, 0xE0, 0xE1


def jpeg(data: Bytes) -> Picture:
    """The picture of a JPEG file.

    Raises:
        Unreadable: it is corrupt, cut off, or of a precision that no decoder here gets right.
    """
    size: Size | None = None
    turn, x, y = UPRIGHT, 0, 0
    at = 2
    while (at := data.find(b"\xff", at)) >= 0 and at + 4 <= len(data):
        marker = data[at + 1]
        if marker in (0x00, 0xFF) or marker in _STANDALONE:  # stuffing, filling, junk between segments
            at += 1 if marker == 0xFF else 2
            continue
        if marker in (_SOS, _EOI):
            break
        segment = data[at + 4 : at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")]
        if marker in _FRAMES and len(segment) >= 6:
            bits, height, width = struct.unpack_from(">BHH", segment)
            if bits != 8:
                raise Unreadable(f"a JPEG of {bits} bits a sample is not supported: save it with 8")
            size = _sized(width, height)
        elif marker == _APP0 and segment.startswith(b"JFIF\0") and len(segment) >= 12:
            x, y = struct.unpack_from(">HH", segment, 8)
        elif marker == _APP1 and segment.startswith(b"Exif\0\0"):
            turn = tiff.orientation(segment)
        at += 4 + len(segment)
    if size is None:
        raise Unreadable("corrupt: this JPEG has no picture in it")
    if data.rfind(b"\xff\xd9", at) < 0:  # cannot stand within the picture's data
        raise Unreadable("corrupt: this JPEG is cut off")
    return Picture(size, turn, x, y)


def png(data: Bytes) -> Picture:
    """The picture of a PNG file; an animated one is its first picture, as any viewer shows it.

    Raises:
        Unreadable: it is corrupt or cut off.
    """
    size: Size | None = None
    turn, x, y, colour, keyed = UPRIGHT, 0, 0, -1, False
    at = 8
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        name = data[at + 4 : at + 8]
        if name == b"IEND":
            break
        if at + 12 + length > len(data):
            raise Unreadable("corrupt: this PNG is cut off")
        if name == b"IHDR" and length == 13:
            width, height, _bits, colour = struct.unpack_from(">IIBB", data, at + 8)
            size = _sized(width, height)
        elif name == b"pHYs" and length == 9:
            x, y = struct.unpack_from(">II", data, at + 8)
        elif name == b"tRNS":
            keyed = True
        elif name == b"eXIf":
            turn = tiff.orientation(data[at + 8 : at + 8 + length])
        at += 12 + length
    else:
        raise Unreadable("corrupt: this PNG is cut off")
    if size is None:
        raise Unreadable("corrupt: this PNG has no header")
    # OpenCV forgets which shade of a grey PNG is transparent.
    return Picture(size, turn, x, y, by_pillow=keyed and colour == 0)


def bmp(data: Bytes) -> Picture:
    """The picture of a BMP file.

    Raises:
        Unreadable: it is corrupt or cut off.
    """
    if len(data) < 34:
        raise Unreadable("corrupt: this BMP is cut off")
    start, header = struct.unpack_from("<II", data, 10)
    if header == 12:
        width, height, _planes, bits = struct.unpack_from("<HHHH", data, 18)
        x, y, packed = 0, 0, False
    else:
        width, height, _planes, bits, compression = struct.unpack_from("<iiHHI", data, 18)
        x, y = struct.unpack_from("<ii", data, 38) if len(data) >= 46 else (0, 0)
        packed = compression not in (0, 3, 6)
    size = _sized(width, abs(height))
    row = (size.width * bits + 31) // 32 * 4
    # Some programs leave out the padding of the last row.
    if not packed and len(data) < start + row * (size.height - 1) + (size.width * bits + 7) // 8:
        raise Unreadable("corrupt: this BMP is cut off")
    return Picture(size, x_density=x, y_density=y)


_GAP = rb"(?:\s|#[^\n]*\n)+"
_PLAIN = re.compile(rb"P([1-6])" + _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,9})(?:" + _GAP + rb"(\d{1,5}))?\s")
_NAMED = re.compile(rb"^(WIDTH|HEIGHT|DEPTH|MAXVAL)[ \t]+(\d{1,9})", re.MULTILINE)
_HEADER = 4096


def pnm(data: Bytes) -> Picture:
    """The picture of a PBM, PGM, PPM or PAM file; only the first, where there are several.

    Raises:
        Unreadable: it is corrupt or cut off.
    """
    head = data[:_HEADER]
    if head.startswith(b"P7"):
        fields = {name: int(value) for name, value in _NAMED.findall(head)}
        end = head.find(b"ENDHDR\n")
        if end < 0 or len(fields) < 4:
            raise Unreadable("corrupt: this PAM has no header")
        size, peak = _sized(fields[b"WIDTH"], fields[b"HEIGHT"]), fields[b"MAXVAL"]
        needed = end + 7 + size.width * size.height * fields[b"DEPTH"] * (2 if peak > 255 else 1)
    else:
        match = _PLAIN.match(head)
        if match is None:
            raise Unreadable("corrupt: this PNM has no header")
        form, size = int(match[1]), _sized(int(match[2]), int(match[3]))
        bitmap = form in (1, 4)
        peak = 255 if bitmap else int(match[4] or 0)
        end = match.end(3) + 1 if bitmap else match.end()
        sample = 2 if peak > 255 else 1
        row = {4: (size.width + 7) // 8, 5: size.width * sample, 6: size.width * 3 * sample}.get(form, size.width)
        needed = end + row * size.height
    if len(data) < needed:
        raise Unreadable("corrupt: this PNM is cut off")
    return Picture(size, peak=peak)


def _sized(width: int, height: int) -> Size:
    if width <= 0 or height <= 0:
        raise Unreadable(f"corrupt: a picture of {width} × {height} pixels")
    return Size(width, height)
