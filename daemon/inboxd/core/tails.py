"""Is a document all there? Each format says in its own way where it ends; the answer is a reason to wait, or none."""

from __future__ import annotations

import re
import struct
from operator import add

from inboxd.core.sniffing import is_blank
from inboxd.core.sparing import CannotTell, Read, Sparing
from inboxd.model import Kind

TAIL = 4096
"""Bytes at the end that must not be all zeros, and where most formats keep their last word."""

_PDF_TAIL = 2048
_PDF_SEARCH = 16 * 1024**2  # how far from the end a PDF's last mark is looked for once patience is at its end
_JPEG_SEGMENTS = 10_000
_BLOCK = 1024**2
_MAX_IFDS = 100_000
_MAX_TAGS = 4096  # libtiff, too, reads no directory with more
_MAX_STRIPS = 100_000
_MAX_BOXES = 10_000
_BOX_NAME = re.compile(rb"[ -~]{4}")
_TIFF_DATA = (273, 279, 324, 325)  # offsets and lengths of strips, then of tiles
_TIFF_INTEGERS = {3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}


def missing(kind: Kind, size: int, read: Read, *, patient: bool, zeros_count: bool = False) -> str:
    """What a file of `size` bytes still lacks, for a person; empty when nothing.

    While `patient`, doubts count too; afterwards a file passes that a reader may make whole: a PDF with junk after
    its end, or with whole objects and no end at all. `zeros_count`: zeros at the end may be space that was set aside
    for an upload, since this filesystem doesn't tell holes; to be left out once patience is over, for a picture may
    well end in black. A file that would take too much to find out lacks nothing: whoever reads it has the last word.
    """
    tail = read(max(0, size - TAIL), TAIL)
    if zeros_count and is_blank(tail):
        return "its end is not written yet (zeros)"
    try:
        return _missing(kind, size, tail, Sparing(read), patient=patient)
    except CannotTell:
        return ""


def _missing(kind: Kind, size: int, tail: bytes, read: Sparing, *, patient: bool) -> str:
    match kind:
        case Kind.PDF:
            return _pdf(size, tail, read, patient=patient)
        case Kind.JPEG:
            return _jpeg(size, read)
        case Kind.PNG:
            return "" if b"IEND\xaeB`\x82" in tail else "the PNG has no end (IEND)"
        case Kind.TIFF:
            return _tiff(size, read)
        case Kind.WEBP:
            return _short(size, int.from_bytes(read(4, 4), "little") + 8)
        case Kind.BMP:
            return _bmp(size, read)
        case Kind.GIF:
            return _gif(read)
        case Kind.JP2:
            return _jp2(size, tail, read)
        case Kind.AVIF:
            return _boxes(size, read, b"mdat")
        case Kind.PNM:
            return _pnm(size, read)


def _short(size: int, needed: int) -> str:
    return f"{needed - size:,} of {needed:,} bytes are missing" if size < needed else ""


def _pdf(size: int, tail: bytes, read: Read, *, patient: bool) -> str:
    text = tail.rstrip(b"\0")[-_PDF_TAIL:]
    if b"%%EOF" in text or (not patient and _pdf_was_whole(size, text, read)):
        return ""
    return "the PDF has no end (%%EOF)"


def _pdf_was_whole(size: int, text: bytes, read: Read) -> bool:
    """Whether the file ends with a whole object, or had its end once and has junk after it."""
    if text.rstrip().endswith(b"endobj"):
        return True
    start = max(0, size - _PDF_SEARCH)
    body = b"".join(read(at, min(_BLOCK, size - at)) for at in range(start, size, _BLOCK))
    # A linearized PDF has an end mark near its start, too: that one refers to offset 0.
    return any(int(match[1]) for match in re.finditer(rb"startxref\s+(\d{1,12})\s", body))


def _jpeg(size: int, read: Read) -> str:
    at = 2
    for _ in range(_JPEG_SEGMENTS):
        marker = read(at, 4)
        if len(marker) < 4:
            return "the JPEG has no end (EOI)"
        if marker[0] != 0xFF or marker[1] in (0x00, 0xFF) or 0xD0 <= marker[1] <= 0xD7:
            at += 1  # padding, or junk between segments that every decoder skips
            continue
        at += 2 + int.from_bytes(marker[2:4], "big")
        if marker[1] == 0xDA:
            break
    # From here on the two bytes of the end mark cannot stand inside the picture's data.
    if b"\xff\xd9" in read(max(at, size - TAIL), TAIL):
        return ""
    overlap = b""
    for offset in range(at, size, _BLOCK):  # a phone's video or second picture may follow the end mark
        block = overlap + read(offset, min(_BLOCK, size - offset))
        if b"\xff\xd9" in block:
            return ""
        overlap = block[-1:]
    return "the JPEG has no end (EOI)"


def _gif(read: Sparing) -> str:
    head = read(0, 13)
    at = 13 + _colours(head[10:11])
    while block := read.byte(at):
        if block == b";":
            return ""
        if block == b",":
            at += 10 + _colours(read.byte(at + 9)) + 1
        elif block == b"!":
            at += 2
        else:
            return ""  # junk: the reader has the last word
        while (length := read.byte(at)) and length[0]:
            at += 1 + length[0]
        at += 1
    return "the GIF has no end"


def _colours(flags: bytes) -> int:
    """Bytes of the colour table that the flags of a GIF announce."""
    return 3 << (flags[0] & 7) + 1 if flags and flags[0] & 0x80 else 0


def _bmp(size: int, read: Read) -> str:
    head = read(0, 34)
    claimed, pixels, dib = struct.unpack_from("<2xI4xII", head.ljust(34, b"\0"))
    if len(head) < (26 if dib == 12 else 34):
        return "its header is not written yet"
    width, height, _planes, bits = struct.unpack_from("<HHHH" if dib == 12 else "<iiHH", head, 18)
    packed = dib >= 40 and int.from_bytes(head[30:34], "little") in (1, 2, 4, 5)
    # The size that the header claims is often wrong; where rows have a fixed length, they tell.
    needed = claimed if packed else pixels + (abs(width) * bits + 31) // 32 * 4 * abs(height)
    return _short(size, needed)


def _tiff(size: int, read: Sparing) -> str:
    head = read(0, 16)
    order = "<" if head[:2] == b"II" else ">"
    big = head[2:4] in (b"+\0", b"\0+")
    (ifd,) = struct.unpack_from(order + ("Q" if big else "I"), head.ljust(16, b"\0"), 8 if big else 4)
    if not ifd:
        return "the TIFF has no page yet"
    seen: set[int] = set()
    while ifd and ifd not in seen and len(seen) < _MAX_IFDS:
        seen.add(ifd)
        found = _ifd(size, ifd, order, big, read)
        if isinstance(found, str):
            return f"page {len(seen)} of the TIFF: {found}"
        ifd = found
    return ""


def _ifd(size: int, at: int, order: str, big: bool, read: Sparing) -> int | str:
    """Where the next directory lies (0: none), or what this one's page lacks."""
    count_format, entry, link = ("Q", 20, "Q") if big else ("H", 12, "I")
    width = struct.calcsize(count_format)
    raw = read(at, width)
    if len(raw) < width:
        return _short(size, at + width)
    (count,) = struct.unpack(order + count_format, raw)
    if count > _MAX_TAGS:
        raise CannotTell
    length = count * entry + struct.calcsize(link)
    if lack := _short(size, at + width + length):
        return lack
    body = read(at + width, length)
    values: dict[int, tuple[int, ...]] = {}
    for number in range(count):
        read.step()
        tag, kind, items = struct.unpack_from(order + ("HHQ" if big else "HHI"), body, number * entry)
        if tag not in _TIFF_DATA or tag in values or kind not in _TIFF_INTEGERS or items > _MAX_STRIPS:
            continue
        numbers = f"{order}{items}{_TIFF_INTEGERS[kind]}"
        span = struct.calcsize(numbers)
        data = body[number * entry + (12 if big else 8) : (number + 1) * entry]
        if span > len(data):
            where = int.from_bytes(data, "little" if order == "<" else "big")
            if lack := _short(size, where + span):
                return lack
            data = read(where, span)
        values[tag] = struct.unpack_from(numbers, data)
    for offsets, counts in (_TIFF_DATA[:2], _TIFF_DATA[2:]):
        ends = map(add, values.get(offsets, ()), values.get(counts, ()))
        if lack := _short(size, max(ends, default=0)):
            return lack
    return int(struct.unpack_from(order + link, body, count * entry)[0])


def _jp2(size: int, tail: bytes, read: Read) -> str:
    if b"\xff\xd9" in tail:
        return ""
    bare = read(0, 2) == b"\xff\x4f"
    return "the JPEG 2000 picture has no end" if bare else _boxes(size, read, b"jp2c")


def _boxes(size: int, read: Read, wanted: bytes) -> str:
    """What a file made of boxes lacks; the one named `wanted` holds the picture."""
    at, seen = 0, False
    for _ in range(_MAX_BOXES):
        head = read(at, 16)
        length = int.from_bytes(head[8:16] if head[:4] == b"\0\0\0\1" else head[:4], "big")
        if length < 8 or not _BOX_NAME.fullmatch(head[4:8]):  # the end, or junk, or a box that ends where the file will
            break
        seen = seen or head[4:8] == wanted
        if lack := _short(size, at + length):
            return lack
        at += length
    return "" if seen else "it has no picture yet"


def _pnm(size: int, read: Read) -> str:
    head = read(0, TAIL)
    if head[:2] == b"P7":
        fields = dict(re.findall(rb"^(WIDTH|HEIGHT|DEPTH|MAXVAL)\s+(\d{1,9})", head, re.MULTILINE))
        end = re.search(rb"^ENDHDR\n", head, re.MULTILINE)
        if end is None or len(fields) < 4:
            return "its header is not written yet"
        width, height, depth, maximum = (int(fields[name]) for name in (b"WIDTH", b"HEIGHT", b"DEPTH", b"MAXVAL"))
        return _short(size, end.end() + width * height * depth * (2 if maximum > 255 else 1))
    gap = rb"(?:\s|#[^\n]*\n)+"
    bitmap = head[1:2] in b"14"
    match = re.match(rb"P[1-6]" + (gap + rb"(\d{1,9})") * (2 if bitmap else 3) + rb"\s", head)
    if match is None:
        return "its header is not written yet"
    width, height, maximum = int(match[1]), int(match[2]), 1 if bitmap else int(match[3])
    if head[1:2] in b"123":  # numbers as text: at least a digit each, and something between them
        return _short(size, match.end() + width * height * {b"1": 1, b"2": 2, b"3": 6}[head[1:2]] - 1)
    row = (width + 7) // 8 if bitmap else width * (3 if head[1:2] == b"6" else 1) * (2 if maximum > 255 else 1)
    return _short(size, match.end() + row * height)
