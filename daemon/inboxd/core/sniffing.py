"""What a file is, by its first bytes: the name is a guess that its owner made."""

from __future__ import annotations

import re

from inboxd.model import Kind

HEAD = 4096
"""Bytes from the start that a look hands in; fewer when the file is shorter."""

_PDF_WITHIN = 1024  # readers find the header after that much junk, and so do we
_PNM = re.compile(rb"P[1-6](\s|#[^\n]*\n)+\d")
_PAM = re.compile(rb"P7\n(#[^\n]*\n)*[A-Z]")
_DIB_SIZES = {12, 16, 40, 52, 56, 64, 108, 124}
_JP2 = b"\0\0\0\x0cjP  \r\n\x87\n"

_HEIC_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"}
_AVIF_BRANDS = {b"avif", b"avis"}

# Magic at the very start → what a person calls it.
_FOREIGN: tuple[tuple[bytes, str], ...] = (
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document: save it as PDF"),
    (b"{\\rtf", "an RTF document: save it as PDF"),
    (b"%!PS", "PostScript: convert it to PDF"),
    (b"AT&TFORM", "a DjVu document: convert it to PDF"),
    (b"\xff\x0a", "a JPEG XL picture: convert it to JPEG"),
    (b"\0\0\0\x0cJXL ", "a JPEG XL picture: convert it to JPEG"),
    (b"8BPS", "a Photoshop picture: convert it to PNG"),
    (b"II\xbc\x01", "a JPEG XR picture: convert it to JPEG"),
    (b"\x97JB2\r\n\x1a\n", "a JBIG2 picture: convert it to PDF"),
    (b"II\x1a\0\0\0HEAPCCDR", "a raw camera picture: convert it to JPEG"),
    (b"FUJIFILMCCD-RAW", "a raw camera picture: convert it to JPEG"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\0", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"\0\x05\x16\x07", "metadata of macOS"),
    (b"\0\x05\x16\0", "metadata of macOS"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a Windows program"),
    (b"ID3", "a sound recording"),
    (b"OggS", "a sound recording"),
    (b"fLaC", "a sound recording"),
    (b"\x1aE\xdf\xa3", "a video"),
)


def kind_of(head: bytes) -> Kind | None:
    """The kind of document that starts with `head`, or None where it is none that can be read."""
    for test, kind in (
        (head.startswith(b"\xff\xd8\xff"), Kind.JPEG),
        (head.startswith(b"\x89PNG\r\n\x1a\n"), Kind.PNG),
        (head.startswith((b"II*\0", b"MM\0*", b"II+\0\x08\0\0\0", b"MM\0+\0\x08\0\0")), Kind.TIFF),
        (head[:4] == b"RIFF" and head[8:12] == b"WEBP", Kind.WEBP),
        (head.startswith((b"GIF87a", b"GIF89a")), Kind.GIF),
        (head.startswith((_JP2, b"\xff\x4f\xff\x51")), Kind.JP2),
        (head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _DIB_SIZES, Kind.BMP),
        (bool(_PNM.match(head) or _PAM.match(head)), Kind.PNM),
        (bool(_brands(head) & _AVIF_BRANDS), Kind.AVIF),
    ):
        if test:
            return kind
    # Last, since an archive or a mail may well hold a PDF within its first kilobyte.
    if b"%PDF-" in head[: _PDF_WITHIN + 5] and not _is_container(head):
        return Kind.PDF
    return None


def foreign(head: bytes) -> str:
    """What a file that is no document is, for a person: 'a ZIP archive', 'an HTML page' …"""
    if _brands(head) & _HEIC_BRANDS:
        return "HEIC is not supported: convert to JPEG"
    return f"not a document: {_named(head)}"


def is_blank(block: bytes) -> bool:
    """Whether `block` holds nothing but zeros: space that was set aside and not yet written."""
    return not block.strip(b"\0")


def _named(head: bytes) -> str:
    if head.startswith(b"PK\x03\x04"):
        return _zip(head)
    for magic, what in _FOREIGN:
        if head.startswith(magic):
            return what
    if head[4:8] == b"ftyp":
        return "a video"
    if head[:4] == b"RIFF":
        return {b"WAVE": "a sound recording", b"AVI ": "a video"}.get(head[8:12], "a RIFF file")
    return _text(head) or f"a file of unknown type (it starts with {head[:8].hex(' ')})"


def _zip(head: bytes) -> str:
    if b"[Content_Types].xml" in head or re.search(rb"(word|xl|ppt)/", head):
        return "an Office document: save it as PDF"
    if b"mimetypeapplication/vnd.oasis.opendocument" in head:
        return "an OpenDocument file: save it as PDF"
    if b"mimetypeapplication/epub" in head:
        return "an e-book"
    return "a ZIP archive"


def _text(head: bytes) -> str:
    """'text', 'an HTML page' …; empty where it is not text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "text"
    if re.search(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]", head):
        return ""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1024].lower()
    if start.startswith((b"<!doctype html", b"<html")) or b"<html" in start:
        return "an HTML page"
    if b"<svg" in start:
        return "an SVG drawing"
    if start.startswith(b"<?xml"):
        return "an XML file"
    if re.match(rb"(received|return-path|from|mime-version|delivered-to|x-[\w-]+): ", start):
        return "an e-mail"
    return "text"


def _brands(head: bytes) -> set[bytes]:
    """The brands of an ISO media file, the first and the compatible ones."""
    if head[4:8] != b"ftyp":
        return set()
    end = min(int.from_bytes(head[:4], "big"), len(head), 256)
    return {head[8:12]} | {head[at : at + 4] for at in range(16, end, 4)}


def _is_container(head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04") or any(head.startswith(magic) for magic, _ in _FOREIGN)
