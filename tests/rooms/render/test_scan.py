"""A scanned page decoded straight is the page that MuPDF draws; whatever is more than a plain scan is left to MuPDF."""

from collections.abc import Callable

import cv2
import numpy as np
import pymupdf
import pytest

from inboxd.core.page_size import fitted
from inboxd.rooms.render.pdf import _drawn
from inboxd.rooms.render.scan import scan

EDGE = 600
MILLION = 1_000_000


def jpeg(width: int = 850, height: int = 1200, channels: int = 3) -> bytes:
    """Something with lines and shades, different in each corner."""
    down, across = np.mgrid[0:height, 0:width]
    page = np.full((height, width, 3), 230, np.uint8)
    page[..., 0] = 120 + 100 * down // height
    page[..., 2] = 240 - 120 * across // width
    for line in range(6):
        cv2.putText(page, f"Line {line} of it", (40, 150 + 150 * line), cv2.FONT_HERSHEY_SIMPLEX, 2, (20, 20, 60), 5)
    shown = page if channels == 3 else cv2.cvtColor(page, cv2.COLOR_BGR2GRAY)
    return cv2.imencode(".jpg", shown, [cv2.IMWRITE_JPEG_QUALITY, 92])[1].tobytes()


def scanned(picture: bytes | None = None, width: float = 425, height: float = 600) -> pymupdf.Page:
    page = pymupdf.open().new_page(width=width, height=height)
    page.insert_image(page.rect, stream=picture or jpeg(), keep_proportion=False)
    return again(page)


def again(page: pymupdf.Page) -> pymupdf.Page:
    """The page as it is read from a file."""
    return pymupdf.open(stream=page.parent.tobytes(), filetype="pdf")[0]


def straight(page: pymupdf.Page, max_pixels: int = 100 * MILLION) -> np.ndarray | None:
    return scan(page, fitted(page.rect.width, page.rect.height, EDGE, enlarge=True), max_pixels)


def by_mupdf(page: pymupdf.Page) -> np.ndarray:
    size = fitted(page.rect.width, page.rect.height, EDGE, enlarge=True)
    return _drawn(page, size)[: size.height, : size.width]


def assert_same(page: pymupdf.Page) -> None:
    mine, its = straight(page), by_mupdf(page)
    assert mine is not None
    assert mine.shape == its.shape
    assert mine.dtype == np.uint8
    # Averaged over the width of a stroke, so that half a pixel's shift of an edge is no difference.
    difference = cv2.absdiff(cv2.blur(mine, (9, 9)), cv2.blur(its, (9, 9)))
    assert difference.mean() < 3
    assert np.percentile(difference, 99) < 25


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_scan_is_what_mupdf_draws(turn: int, channels: int) -> None:
    page = scanned(jpeg(channels=channels))
    page.set_rotation(turn)
    assert_same(again(page))


@pytest.mark.parametrize(
    ("width", "height"), [(425, 600), (850, 1200), (1701, 2400), (3400, 4799), (424, 601), (300, 900)]
)
def test_of_any_resolution(width: int, height: int) -> None:
    assert_same(scanned(jpeg(width, height)))


def test_with_an_origin_elsewhere() -> None:
    page = scanned()
    pdf = page.parent
    pdf.xref_set_key(page.xref, "MediaBox", "[100 50 525 650]")
    content = page.get_contents()[0]
    pdf.update_stream(content, pdf.xref_stream(content).replace(b"0 0 cm", b"100 50 cm"))
    assert_same(again(page))


def test_with_a_user_unit() -> None:
    page = scanned()
    page.parent.xref_set_key(page.xref, "UserUnit", "2")
    assert_same(again(page))


def test_with_its_matrix_in_two_steps() -> None:
    page = scanned()
    content = page.get_contents()[0]
    page.parent.update_stream(content, b"q 0.5 0 0 .5 0 0 cm q 850 0 0 1200 0 -0 cm /fzImg0 Do Q Q")
    assert_same(again(page))


def test_with_a_layer_of_hidden_text() -> None:
    page = scanned()
    for line in range(40):
        page.insert_text((50, 50 + 12 * line), "what an OCR program found on it " * 3, render_mode=3)
    assert len(again(page).read_contents()) > 2000
    assert_same(again(page))


def with_text(page: pymupdf.Page) -> None:
    page.insert_text((50, 50), "seen")


def with_note(page: pymupdf.Page) -> None:
    page.add_freetext_annot(pymupdf.Rect(50, 50, 200, 100), "seen")


def with_crop(page: pymupdf.Page) -> None:
    page.set_cropbox(pymupdf.Rect(50, 50, 300, 500))


def with_two_images(page: pymupdf.Page) -> None:
    page.insert_image(pymupdf.Rect(0, 0, 200, 200), stream=jpeg(100, 100))


def content(replacement: bytes) -> Callable[[pymupdf.Page], None]:
    def change(page: pymupdf.Page) -> None:
        page.parent.update_stream(page.get_contents()[0], replacement)

    return change


def image_key(key: str, value: str) -> Callable[[pymupdf.Page], None]:
    def change(page: pymupdf.Page) -> None:
        page.parent.xref_set_key(page.get_images()[0][0], key, value)

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(with_text, id="text over it"),
        pytest.param(with_note, id="a note"),
        pytest.param(with_crop, id="cropped"),
        pytest.param(with_two_images, id="two images"),
        pytest.param(content(b"q 400 0 0 600 0 0 cm /fzImg0 Do Q"), id="a margin"),
        pytest.param(content(b"q 500 0 0 600 0 0 cm /fzImg0 Do Q"), id="over the edge"),
        pytest.param(content(b"q 425 0 0 -600 0 600 cm /fzImg0 Do Q"), id="upside down"),
        pytest.param(content(b"q 0 600 -425 0 425 0 cm /fzImg0 Do Q"), id="on its side"),
        pytest.param(content(b"q 425 9 9 600 0 0 cm /fzImg0 Do Q"), id="skewed"),
        pytest.param(content(b"q 0 0 99 99 re W n 425 0 0 600 0 0 cm /fzImg0 Do Q"), id="clipped"),
        pytest.param(content(b"q /gs gs 425 0 0 600 0 0 cm /fzImg0 Do Q"), id="with a graphics state"),
        pytest.param(content(b"q 425 0 0 600 0 0 cm /other Do Q"), id="another name"),
        pytest.param(content(b"q 425 0 0 600 0 0 cm /fzImg0 Do Q 1 0 0 rg 0 0 9 9 re f"), id="painted over"),
        pytest.param(content(b"q 425 0 0 600 0 0 cm /fzImg0 Do Q q 9 0 0 9 0 0 cm /fzImg0 Do Q"), id="drawn twice"),
        pytest.param(content(b"q 425 0 0 600 0 0 cm /fzImg0 Do Q q BI /W 1 /H 1 /BPC 8 /CS /G ID a EI Q"), id="inline"),
        pytest.param(content(b"q 425 0 0 600 0 0 cm /fzImg0 Do Q /P <<>> BDC 9 9 99 99 re f EMC"), id="marked"),
        pytest.param(content(b"q 1 1 1 1 1 1 1 1" + b" 1" * 2000), id="endless"),
        pytest.param(content(b""), id="nothing"),
        pytest.param(image_key("Decode", "[1 0 1 0 1 0]"), id="a negative"),
        pytest.param(image_key("Mask", "[0 1 0 1 0 1]"), id="masked"),
        pytest.param(image_key("OC", "<</Type/OCG/Name(x)>>"), id="in a layer"),
        pytest.param(image_key("ColorSpace", "/DeviceCMYK"), id="of four inks"),
        pytest.param(image_key("ColorSpace", "[/Lab <</WhitePoint[1 1 1]>>]"), id="of other colours"),
        pytest.param(image_key("ColorSpace", "[/ICCBased 1 0 R]"), id="of unknown colours"),
        pytest.param(image_key("Width", "900"), id="of another size than it says"),
    ],
)
def test_what_is_more_than_a_scan_is_left_to_mupdf(change: Callable[[pymupdf.Page], None]) -> None:
    page = scanned()
    assert straight(page) is not None
    change(page)
    assert straight(again(page)) is None


def test_a_jpeg_cut_off_or_broken_or_too_large_is_left_to_mupdf() -> None:
    whole = jpeg()
    page = scanned()
    xref = page.get_images()[0][0]
    for data in (whole[: len(whole) // 2], b"\xff\xd8" + whole[200:], b"", b"no JPEG at all"):
        page.parent.update_stream(xref, data, compress=False)
        page.parent.xref_set_key(xref, "Filter", "/DCTDecode")
        assert straight(again(page)) is None
    assert straight(scanned(), max_pixels=MILLION) is None
