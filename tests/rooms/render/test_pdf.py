"""PDF pages, made here, come out as a viewer shows them, at the model's size; what is missing from them is said."""

import os
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pymupdf
import pytest

from inboxd.core.verdict import NO_IMAGE_DRAWN, NO_TEXT_DRAWN, judge
from inboxd.model import PageState, PageText
from inboxd.rooms.render.documents import Drawn, Unreadable
from inboxd.rooms.render.ink import ink
from inboxd.rooms.render.pdf import PdfDocument

EDGE = 400


def opened(tmp_path: Path, pdf: pymupdf.Document | bytes, **limits: Any) -> PdfDocument:
    path = tmp_path / "document.pdf"
    path.write_bytes(pdf if isinstance(pdf, bytes) else pdf.tobytes())
    limits = {"max_pages": 100, "max_pixels": 100_000_000, "longest_edge": EDGE, **limits}
    with path.open("rb") as file:
        return PdfDocument(file.fileno(), **limits)


def drawn(tmp_path: Path, pdf: pymupdf.Document | bytes, number: int = 1) -> Drawn:
    return opened(tmp_path, pdf).draw(number)


def with_page(width: float = 300, height: float = 400) -> tuple[pymupdf.Document, pymupdf.Page]:
    pdf = pymupdf.open()
    page = pdf.new_page(width=width, height=height)
    page.draw_rect(pymupdf.Rect(0, 0, width / 4, height / 4), color=(1, 0, 0), fill=(1, 0, 0))
    return pdf, page


def red_corner(pixels: np.ndarray) -> str:
    """The corner in which the red rectangle lies."""
    red = (pixels[..., 0] > 200) & (pixels[..., 1] < 60)
    rows, columns = np.nonzero(red)
    assert len(rows)
    height, width = pixels.shape[:2]
    return f"{'top' if rows.mean() < height / 2 else 'bottom'} {'left' if columns.mean() < width / 2 else 'right'}"


# ------------------------------------------------------------------------------------------------ geometry


@pytest.mark.parametrize(
    ("turn", "corner"), [(0, "top left"), (90, "top right"), (180, "bottom right"), (270, "bottom left")]
)
def test_a_turned_page_is_shown_turned(tmp_path: Path, turn: int, corner: str) -> None:
    pdf, page = with_page()
    page.set_rotation(turn)
    pixels = drawn(tmp_path, pdf).pixels
    assert pixels.shape == ((400, 300, 3) if turn in (0, 180) else (300, 400, 3))
    assert red_corner(pixels) == corner


def test_a_cropped_page_is_shown_cropped_and_fills_the_edge(tmp_path: Path) -> None:
    pdf, page = with_page()
    page.set_cropbox(pymupdf.Rect(50, 50, 150, 250))
    pixels = drawn(tmp_path, pdf).pixels
    assert pixels.shape == (400, 200, 3)
    assert pixels[90, 40].tolist() == [255, 0, 0]
    assert pixels[110, 40].tolist() == [255, 255, 255]


def test_boxes_with_an_odd_origin_are_shown_whole(tmp_path: Path) -> None:
    pdf, page = with_page()
    page.set_mediabox(pymupdf.Rect(-100, -100, 300, 400))
    assert drawn(tmp_path, pdf).pixels.shape == (400, 320, 3)


def test_user_units_are_heeded(tmp_path: Path) -> None:
    pdf, page = with_page(30, 40)
    pdf.xref_set_key(page.xref, "UserUnit", "10")
    pixels = drawn(tmp_path, pdf).pixels
    assert pixels.shape == (400, 300, 3)
    assert red_corner(pixels) == "top left"


@pytest.mark.parametrize(
    ("width", "height", "shape"),
    [(1, 1, (400, 400, 3)), (14400, 14400, (400, 400, 3)), (14400, 3, (1, 400, 3)), (3, 14400, (400, 1, 3))],
)
def test_pages_of_every_size_come_out_at_the_edge(
    tmp_path: Path, width: float, height: float, shape: tuple[int, ...]
) -> None:
    assert drawn(tmp_path, with_page(width, height)[0]).pixels.shape == shape


@pytest.mark.parametrize(
    "box", ["[0 0 1e9 1e9]", "[0 0 2147483647 10]", "[0 0 0 0]", "[0 0 -5 9]", "[5 5]", "[/A /B 3 4]"]
)
def test_absurd_boxes_give_a_page_or_a_reason(tmp_path: Path, box: str) -> None:
    pdf, page = with_page()
    pdf.xref_set_key(page.xref, "MediaBox", box)
    try:
        shape = drawn(tmp_path, pdf).pixels.shape
    except Unreadable as error:
        assert str(error)
    else:
        assert max(shape) == EDGE


# ------------------------------------------------------------------------------------------------ what is shown


def test_form_values_are_drawn_also_without_appearances(tmp_path: Path) -> None:
    pdf = pymupdf.open()
    page = pdf.new_page(width=300, height=400)
    widget = pymupdf.Widget()
    widget.field_name, widget.field_type = "name", pymupdf.PDF_WIDGET_TYPE_TEXT
    widget.rect, widget.field_value = pymupdf.Rect(20, 20, 280, 60), "Hello"
    page.add_widget(widget)
    (xref,) = (widget.xref for widget in page.widgets())
    assert drawn(tmp_path, pdf).pixels.min() < 60
    pdf.xref_set_key(xref, "AP", "null")
    pdf.xref_set_key(pdf.pdf_catalog(), "AcroForm/NeedAppearances", "true")
    assert drawn(tmp_path, pdf).pixels.min() < 60


def test_notes_on_the_page_are_drawn_and_hidden_ones_are_not(tmp_path: Path) -> None:
    pdf = pymupdf.open()
    note = pdf.new_page(width=300, height=400).add_freetext_annot(pymupdf.Rect(20, 20, 280, 60), "Hello")
    assert drawn(tmp_path, pdf).pixels.min() < 60
    note.set_flags(pymupdf.PDF_ANNOT_IS_HIDDEN)
    assert drawn(tmp_path, pdf).pixels.min() == 255


def test_layers_that_are_off_are_not_drawn(tmp_path: Path) -> None:
    pdf = pymupdf.open()
    page = pdf.new_page(width=300, height=400)
    page.insert_text((50, 200), "HIDDEN", fontsize=50, oc=pdf.add_ocg("off", on=False))
    assert drawn(tmp_path, pdf).pixels.min() == 255
    page.insert_text((50, 300), "SHOWN", fontsize=50, oc=pdf.add_ocg("on", on=True))
    assert drawn(tmp_path, pdf).pixels.min() < 60


def test_pixels_outlive_the_document(tmp_path: Path) -> None:
    pdf, _ = with_page()
    document = opened(tmp_path, pdf)
    first = document.draw(1).pixels
    copy = first.copy()
    for _ in range(5):
        document.draw(1)
    document.close()
    assert np.array_equal(first, copy)


# ------------------------------------------------------------------------------------------------ refusals


def test_what_mupdf_cannot_hold_is_refused_by_how_much(tmp_path: Path) -> None:
    path = tmp_path / "giant.pdf"
    path.write_bytes(with_page()[0].tobytes())
    os.truncate(path, 2**31 + 9)  # a hole: it takes no room
    with path.open("rb") as file, pytest.raises(Unreadable, match=r"too large: .* 2,147,483,657 bytes, 10 more"):
        PdfDocument(file.fileno(), max_pages=1, max_pixels=10**8, longest_edge=EDGE)


def test_an_owner_password_is_no_obstacle_and_a_user_password_is_named(tmp_path: Path) -> None:
    pdf, _ = with_page()
    locked = {"encryption": pymupdf.PDF_ENCRYPT_AES_256, "permissions": 0, "owner_pw": "owner"}
    assert red_corner(drawn(tmp_path, pdf.tobytes(**locked)).pixels) == "top left"
    with pytest.raises(Unreadable, match=r"^encrypted: a password is needed"):
        opened(tmp_path, pdf.tobytes(**locked, user_pw="user"))


def test_too_many_pages_are_refused_saying_how_many(tmp_path: Path) -> None:
    pdf = pymupdf.open()
    for _ in range(5):
        pdf.new_page()
    assert opened(tmp_path, pdf, max_pages=5).pages == 5
    with pytest.raises(Unreadable, match="too many pages: 5, and 4 are allowed"):
        opened(tmp_path, pdf, max_pages=4)


@pytest.mark.parametrize("content", [b"", b"%PDF-1.7\n", b"%PDF-1.7\n%%EOF\n", b"hello", b"\0" * 5000])
def test_what_is_no_pdf_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(Unreadable, match=r"^(corrupt|empty|no pages)"):
        opened(tmp_path, content)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"<html><body><p>Hello</p></body></html>", "HTML5"),
        (b"<?xml version='1.0'?><svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>", "SVG"),
        (cv2.imencode(".png", np.zeros((9, 9), np.uint8))[1].tobytes(), "Image"),
    ],
)
def test_another_format_is_not_passed_off_as_a_pdf(tmp_path: Path, content: bytes, what: str) -> None:
    with pytest.raises(Unreadable, match=f"^not a PDF: it holds {what}"):
        opened(tmp_path, content)


@pytest.mark.parametrize("count", ["-1", "99999999999", "2000000000"])
def test_a_count_that_lies_is_no_reason_to_believe_it(tmp_path: Path, count: str) -> None:
    pdf, _ = with_page()
    data = pdf.tobytes(no_new_id=True)
    lie = data.replace(b"/Count 1", b"/Count " + count.encode())
    assert lie != data
    try:
        assert opened(tmp_path, lie).pages == 1
    except Unreadable as error:
        assert str(error).startswith(("corrupt", "no pages", "too many pages"))


def test_a_page_that_cannot_be_found_fails_alone(tmp_path: Path) -> None:
    pdf, _ = with_page()
    pdf.new_page()
    pages = pdf.xref_get_key(pdf.pdf_catalog(), "Pages")[1].split()[0]
    pdf.xref_set_key(int(pages), "Count", "3")
    document = opened(tmp_path, pdf)
    assert document.pages == 3
    assert document.draw(2).pixels.shape[2] == 3
    with pytest.raises(Unreadable, match=r"^corrupt"):
        document.draw(3)


# ------------------------------------------------------------------------------------------------ what is missing


def scanned(stream: bytes, codec: str, width: int, height: int, *, bits: int = 8, colour: str = "/DeviceRGB") -> bytes:
    """A PDF whose only page is covered by an image with these raw bytes."""
    pdf = pymupdf.open()
    page = pdf.new_page(width=300, height=400)
    image, content = pdf.get_new_xref(), pdf.get_new_xref()
    space = f"/ColorSpace {colour}" if colour else ""
    pdf.update_object(
        image,
        f"<< /Type /XObject /Subtype /Image /Width {width} /Height {height} /BitsPerComponent {bits} {space} >>",
    )
    pdf.update_stream(image, stream, compress=False)
    pdf.xref_set_key(image, "Filter", f"/{codec}")
    pdf.update_object(content, "<< >>")
    pdf.update_stream(content, b"q 300 0 0 400 0 0 cm /Scan Do Q")
    pdf.xref_set_key(page.xref, "Resources", f"<< /XObject << /Scan {image} 0 R >> >>")
    pdf.xref_set_key(page.xref, "Contents", f"{content} 0 R")
    return bytes(pdf.tobytes())


def scan(*, blank: bool = False) -> np.ndarray:
    page = np.full((400, 300, 3), 255, np.uint8)
    if not blank:
        for line in range(12):
            cv2.putText(page, "the quick brown fox", (20, 30 + 30 * line), cv2.FONT_HERSHEY_SIMPLEX, 0.7, (0, 0, 0), 2)
    return page


def jpx(page: np.ndarray) -> bytes:
    return bytes(cv2.imencode(".jp2", page, [cv2.IMWRITE_JPEG2000_COMPRESSION_X1000, 300])[1].tobytes())


def test_a_whole_scan_has_nothing_to_say(tmp_path: Path) -> None:
    page = drawn(tmp_path, scanned(jpx(scan()), "JPXDecode", 300, 400, colour=""))
    assert page.pixels.min() < 60
    assert page.warnings == ()


@pytest.mark.parametrize("kept", [0.9, 0.5, 0.1])
def test_a_cut_off_scan_that_comes_out_white_is_said_to_hold_an_image(tmp_path: Path, kept: float) -> None:
    stream = jpx(scan())
    page = drawn(tmp_path, scanned(stream[: int(len(stream) * kept)], "JPXDecode", 300, 400, colour=""))
    assert page.pixels.min() == 255
    assert page.warnings[0] == NO_IMAGE_DRAWN


@pytest.mark.parametrize("kept", [0.9, 0.5, 0.1])
def test_a_stamp_does_not_hide_that_the_scan_under_it_is_lost(tmp_path: Path, kept: float) -> None:
    stream = jpx(scan())
    with pymupdf.open(stream=scanned(stream[: int(len(stream) * kept)], "JPXDecode", 300, 400, colour="")) as pdf:
        pdf[0].insert_text((120, 390), "Page 3 of 12", fontsize=8, overlay=False)  # it stops at what it can't draw
        page = drawn(tmp_path, pdf)
    assert page.pixels.min() < 100
    assert page.warnings[0] == NO_IMAGE_DRAWN
    read = PageText("Page 3 of 12")
    assert judge(read, ink=ink(page.pixels), warnings=page.warnings, last_attempt=True).state is PageState.SUSPECT


def test_a_stamped_scan_with_little_on_it_is_not_lost(tmp_path: Path) -> None:
    little = scan(blank=True)
    cv2.putText(little, "p. 3", (100, 380), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (0, 0, 0), 1)
    with pymupdf.open(stream=scanned(jpx(little), "JPXDecode", 300, 400, colour="")) as pdf:
        pdf[0].insert_text((120, 30), "RECEIVED", fontsize=8)
        assert drawn(tmp_path, pdf).warnings == ()


@pytest.mark.parametrize("codec", ["JPXDecode", "JBIG2Decode", "CCITTFaxDecode", "DCTDecode", "FlateDecode", "Unheard"])
def test_rubbish_in_place_of_a_scan_is_said(tmp_path: Path, codec: str) -> None:
    bits = 1 if codec in ("JBIG2Decode", "CCITTFaxDecode") else 8
    colour = "/DeviceGray" if bits == 1 else "/DeviceRGB"
    page = drawn(tmp_path, scanned(b"\1\2" * 3000, codec, 300, 400, bits=bits, colour=colour))
    assert page.warnings


def test_a_blank_scan_is_just_blank(tmp_path: Path) -> None:
    blank = scan(blank=True)
    for data in (
        scanned(jpx(blank), "JPXDecode", 300, 400, colour=""),
        scanned(cv2.imencode(".jpg", blank)[1].tobytes(), "DCTDecode", 300, 400),
        scanned(zlib.compress(blank.tobytes()), "FlateDecode", 300, 400),
    ):
        page = drawn(tmp_path, data)
        assert page.pixels.min() >= 250
        assert page.warnings == ()


def test_a_page_without_anything_is_just_blank(tmp_path: Path) -> None:
    pdf = pymupdf.open()
    pdf.new_page()
    assert drawn(tmp_path, pdf).warnings == ()


def test_text_that_was_not_drawn_is_said(tmp_path: Path) -> None:
    pdf = pymupdf.open()
    pdf.new_page().insert_text((50, 200), "white on white", color=(1, 1, 1))
    assert drawn(tmp_path, pdf).warnings[0] == NO_TEXT_DRAWN


def test_a_missing_cjk_font_is_named(tmp_path: Path) -> None:
    pdf = pymupdf.open()
    pdf.new_page().insert_text((50, 200), "漢字", fontname="china-s")
    (warning,) = drawn(tmp_path, pdf).warnings
    assert "not embedded" in warning


def test_attachments_and_xfa_are_said_with_the_first_page(tmp_path: Path) -> None:
    pdf, _ = with_page()
    pdf.new_page()
    pdf.embfile_add("other.pdf", b"%PDF-")
    pdf.xref_set_key(pdf.pdf_catalog(), "AcroForm", "<< /XFA (x) >>")
    document = opened(tmp_path, pdf)
    first = document.draw(1).warnings
    assert any("1 attached file not read" in warning for warning in first)
    assert any("XFA" in warning for warning in first)
    assert document.draw(2).warnings == ()


def test_a_repaired_pdf_is_said_to_be_damaged(tmp_path: Path) -> None:
    data = with_page()[0].tobytes()
    page = drawn(tmp_path, data[: data.rindex(b"startxref")])
    assert red_corner(page.pixels) == "top left"
    assert any("damaged" in warning for warning in page.warnings)
