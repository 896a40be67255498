from __future__ import annotations

import zipfile
from io import BytesIO

import cv2
import numpy as np
import pymupdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.core.sniffing import HEAD, foreign, is_blank, kind_of
from inboxd.model import Kind

PAGE = np.full((40, 60, 3), 200, np.uint8)


def drawn(suffix: str) -> bytes:
    done, data = cv2.imencode(suffix, PAGE)
    assert done
    return data.tobytes()


def pdf() -> bytes:
    with pymupdf.open() as document:
        document.new_page()
        return bytes(document.tobytes())


def archive(*names: str) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as into:
        for name in names:
            into.writestr(name, "application/vnd.oasis.opendocument.text" if name == "mimetype" else "x")
    return out.getvalue()


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [
        (".jpg", Kind.JPEG),
        (".png", Kind.PNG),
        (".tif", Kind.TIFF),
        (".webp", Kind.WEBP),
        (".bmp", Kind.BMP),
        (".gif", Kind.GIF),
        (".jp2", Kind.JP2),
        (".ppm", Kind.PNM),
        (".avif", Kind.AVIF),
    ],
)
def test_pictures_as_opencv_writes_them(suffix: str, kind: Kind) -> None:
    assert kind_of(drawn(suffix)[:HEAD]) is kind


@pytest.mark.parametrize(
    "junk", [b"", b"\xef\xbb\xbf", b"\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"\0" * 300, b"j" * 1019]
)
def test_a_pdf_may_have_junk_before_its_header(junk: bytes) -> None:
    assert kind_of((junk + pdf())[:HEAD]) is Kind.PDF


def test_but_not_more_than_a_kilobyte() -> None:
    assert kind_of(b"j" * 1025 + pdf()) is None


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0", Kind.TIFF),
        (b"MM\0+\0\x08\0\0\0\0\0\0\0\0\0\x10", Kind.TIFF),
        (b"MM\0*\0\0\0\x08", Kind.TIFF),
        (b"\xff\x4f\xff\x51\0\x2f", Kind.JP2),
        (b"P1\n# a comment\n24 7\n", Kind.PNM),
        (b"P4 8 8\n", Kind.PNM),
        (b"P7\nWIDTH 4\n", Kind.PNM),
        (b"GIF87a", Kind.GIF),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf", Kind.AVIF),
    ],
)
def test_rarer_beginnings(head: bytes, kind: Kind) -> None:
    assert kind_of(head) is kind


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (archive("scan.pdf"), "not a document: a ZIP archive"),
        (archive("[Content_Types].xml", "word/document.xml"), "not a document: an Office document: save it as PDF"),
        (archive("mimetype", "content.xml"), "not a document: an OpenDocument file: save it as PDF"),
        (b"PK\x03\x04" + b"\0" * 26 + b"inside.pdf%PDF-1.4", "not a document: a ZIP archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "not a document: an old Office document: save it as PDF"),
        (b"<!DOCTYPE html>\n<p>hello", "not a document: an HTML page"),
        (b"\xef\xbb\xbf  <HTML>", "not a document: an HTML page"),
        (b"<?xml version='1.0'?><a/>", "not a document: an XML file"),
        (b"<?xml version='1.0'?>\n<svg xmlns='x'/>", "not a document: an SVG drawing"),
        (b"Received: from mail\r\n", "not a document: an e-mail"),
        (b"hello, this is no PDF", "not a document: text"),
        ("Grüße".encode("latin-1"), "not a document: text"),
        (b"{\\rtf1", "not a document: an RTF document: save it as PDF"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC is not supported: convert to JPEG"),
        (b"\0\0\0\x18ftypmp42\0\0\0\0", "not a document: a video"),
        (b"\0\x05\x16\x07\0\x02\0\0", "not a document: metadata of macOS"),
        (b"BM is how this text begins", "not a document: text"),
        (b"P5 is how this text begins", "not a document: text"),
        (
            b"\x01\x02\x03\x04\x05\x06\x07\x08\x09",
            "not a document: a file of unknown type (it starts with 01 02 03 04 05 06 07 08)",
        ),
        (b"RIFF\0\0\0\0WAVE", "not a document: a sound recording"),
        (b"\x1f\x8b\x08", "not a document: a gzip archive"),
    ],
)
def test_what_is_no_document_is_called_by_its_name(head: bytes, said: str) -> None:
    assert kind_of(head[:HEAD]) is None
    assert foreign(head[:HEAD]) == said


def test_blank() -> None:
    assert is_blank(b"\0" * 4096)
    assert is_blank(b"")
    assert not is_blank(b"\0" * 100 + b"\1")


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_bytes_get_an_answer(head: bytes) -> None:
    assert kind_of(head) in (None, *Kind)
    assert foreign(head)


@given(
    st.sampled_from([b"ftyp", b"P6", b"BM", b"RIFF", b"%PDF-", b"PK\x03\x04", b"\xff\xd8\xff"]),
    st.binary(max_size=64),
    st.integers(0, 8),
)
def test_any_bytes_round_a_magic_get_an_answer(magic: bytes, rest: bytes, at: int) -> None:
    head = rest[:at] + magic + rest[at:]
    assert kind_of(head) in (None, *Kind)
    assert foreign(head)
