"""Image files of every kind, made here, come out 8-bit, opaque on white, upright and in their true proportions."""

import io
import struct
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from inboxd.model import Kind
from inboxd.rooms.render.documents import Unreadable
from inboxd.rooms.render.images import ImageDocument

RED, WHITE, BLACK = (200, 10, 60), (255, 255, 255), (0, 0, 0)
WIDTH, HEIGHT = 60, 40


def opened(tmp_path: Path, data: bytes, kind: Kind, **limits: Any) -> ImageDocument:
    path = tmp_path / "image"
    path.write_bytes(data)
    with path.open("rb") as file:
        return ImageDocument(
            file.fileno(), kind, **{"max_pages": 100, "max_pixels": 10**8, "longest_edge": 1540, **limits}
        )


def drawn(tmp_path: Path, data: bytes, kind: Kind, number: int = 1, **limits: Any) -> np.ndarray:
    pixels = opened(tmp_path, data, kind, **limits).draw(number).pixels
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == 3
    return pixels


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def near(pixel: np.ndarray, colour: tuple[int, int, int], tolerance: int = 12) -> bool:
    return bool(np.abs(pixel.astype(int) - colour).max() <= tolerance)


def quartered(mode: str = "RGB") -> Image.Image:
    """Red top left, black top right, white below: no two turns of it look the same."""
    image = Image.new("RGB", (WIDTH, HEIGHT), WHITE)
    image.paste(RED, (0, 0, WIDTH // 2, HEIGHT // 2))
    image.paste(BLACK, (WIDTH // 2, 0, WIDTH, HEIGHT // 2))
    return image.convert(mode)


def is_quartered(page: np.ndarray) -> bool:
    return (
        page.shape == (HEIGHT, WIDTH, 3)
        and near(page[5, 5], RED)
        and near(page[5, -5], BLACK)
        and near(page[-5, 5], WHITE)
        and near(page[-5, -5], WHITE)
    )


PLAIN = {
    "jpeg": (Kind.JPEG, "JPEG", {"quality": 95, "subsampling": 0}),
    "progressive jpeg": (Kind.JPEG, "JPEG", {"quality": 95, "subsampling": 0, "progressive": True}),
    "png": (Kind.PNG, "PNG", {}),
    "bmp": (Kind.BMP, "BMP", {}),
    "webp": (Kind.WEBP, "WEBP", {"lossless": True}),
    "ppm": (Kind.PNM, "PPM", {}),
    "jp2": (Kind.JP2, "JPEG2000", {}),
    "avif": (Kind.AVIF, "AVIF", {"quality": 95}),
    "tiff": (Kind.TIFF, "TIFF", {}),
    "tiff lzw": (Kind.TIFF, "TIFF", {"compression": "tiff_lzw"}),
    "tiff deflate": (Kind.TIFF, "TIFF", {"compression": "tiff_adobe_deflate"}),
    "tiff packbits": (Kind.TIFF, "TIFF", {"compression": "packbits"}),
    "tiff zstd": (Kind.TIFF, "TIFF", {"compression": "zstd"}),
    "tiff lzma": (Kind.TIFF, "TIFF", {"compression": "lzma"}),
    "bigtiff": (Kind.TIFF, "TIFF", {"big_tiff": True}),
}


@pytest.mark.parametrize("name", PLAIN)
def test_every_format_shows_its_colours_the_right_way_up(tmp_path: Path, name: str) -> None:
    kind, form, options = PLAIN[name]
    assert is_quartered(drawn(tmp_path, encoded(quartered(), form, **options), kind))


MODES = {
    "palette png": (Kind.PNG, "PNG", "P"),
    "palette bmp": (Kind.BMP, "BMP", "P"),
    "palette tiff": (Kind.TIFF, "TIFF", "P"),
    "cmyk tiff": (Kind.TIFF, "TIFF", "CMYK"),
    "cmyk jpeg": (Kind.JPEG, "JPEG", "CMYK"),
    "opaque rgba png": (Kind.PNG, "PNG", "RGBA"),
    "opaque rgba tiff": (Kind.TIFF, "TIFF", "RGBA"),
    "opaque gif": (Kind.GIF, "GIF", "P"),
}


@pytest.mark.parametrize("name", MODES)
def test_every_colour_model_shows_its_colours(tmp_path: Path, name: str) -> None:
    kind, form, mode = MODES[name]
    page = drawn(tmp_path, encoded(quartered(mode), form), kind)
    assert near(page[5, 5], RED, tolerance=80)  # palettes and inks are approximations
    assert near(page[5, -5], BLACK, tolerance=60)
    assert near(page[-5, 5], WHITE)


@pytest.mark.parametrize(
    ("kind", "form"), [(Kind.PNG, "PNG"), (Kind.TIFF, "TIFF"), (Kind.BMP, "BMP"), (Kind.PNM, "PPM")]
)
def test_one_bit_images_are_not_inverted(tmp_path: Path, kind: Kind, form: str) -> None:
    page = drawn(tmp_path, encoded(quartered("1"), form), kind)
    assert near(page[5, -5], BLACK)
    assert near(page[-5, 5], WHITE)


@pytest.mark.parametrize("compression", ["raw", "group3", "group4"])
@pytest.mark.parametrize("white_is_zero", [False, True])
def test_fax_tiffs_are_black_on_white_however_they_count(tmp_path: Path, compression: str, white_is_zero: bool) -> None:
    image = quartered("1")
    data = encoded(image, "TIFF", compression=compression, tiffinfo={262: 0 if white_is_zero else 1})
    with Image.open(io.BytesIO(data)) as again:
        truth = np.asarray(again.convert("L"))
    page = drawn(tmp_path, data, Kind.TIFF)
    assert near(page[5, -5], (int(truth[5, -5]),) * 3)
    assert near(page[-5, 5], (int(truth[-5, 5]),) * 3)


# ------------------------------------------------------------------------------------------------ transparency


def half_there(mode: str) -> Image.Image:
    """Black on the left, nothing (stored as black) on the right."""
    image = Image.new("RGBA", (WIDTH, HEIGHT), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, WIDTH // 2, HEIGHT))
    return image.convert(mode)


ALPHA = {
    "rgba png": (Kind.PNG, "PNG", "RGBA", {}),
    "la png": (Kind.PNG, "PNG", "LA", {}),
    "rgba tiff": (Kind.TIFF, "TIFF", "RGBA", {}),
    "la tiff": (Kind.TIFF, "TIFF", "LA", {}),
    "rgba webp": (Kind.WEBP, "WEBP", "RGBA", {"lossless": True}),
    "rgba jp2": (Kind.JP2, "JPEG2000", "RGBA", {}),
    "la jp2": (Kind.JP2, "JPEG2000", "LA", {}),
    "rgba avif": (Kind.AVIF, "AVIF", "RGBA", {}),
    "gif": (Kind.GIF, "GIF", "RGBA", {}),
}


@pytest.mark.parametrize("name", ALPHA)
def test_what_is_transparent_is_white(tmp_path: Path, name: str) -> None:
    kind, form, mode, options = ALPHA[name]
    page = drawn(tmp_path, encoded(half_there(mode), form, **options), kind)
    assert near(page[20, 5], BLACK)
    assert near(page[20, -5], WHITE)


@pytest.mark.parametrize("name", [name for name in ALPHA if name not in ("gif", "la png", "la tiff", "la jp2")])
def test_half_transparent_colours_are_half_as_strong(tmp_path: Path, name: str) -> None:
    kind, form, mode, options = ALPHA[name]
    page = drawn(tmp_path, encoded(Image.new(mode, (9, 9), (200, 100, 40, 128)), form, **options), kind)
    assert near(page[4, 4], (227, 177, 147), tolerance=2)


@pytest.mark.parametrize(("stored", "extra"), [((200, 100, 40), 2), ((100, 50, 20), 1)])
def test_a_16_bit_tiff_says_whether_its_colours_are_weakened_already(
    tmp_path: Path, stored: tuple[int, int, int], extra: int
) -> None:
    body = struct.pack("<8H", *(257 * sample for sample in (*stored, 128)), 16, 16, 16, 16) + bytes(8)
    tags = [(256, 1), (257, 1), (262, 2), (273, 8), (277, 4), (279, 8), (338, extra)]
    entries = [struct.pack("<HHII", tag, 3, 1, value) for tag, value in tags]
    entries.insert(2, struct.pack("<HHII", 258, 3, 4, 16))
    ifd = struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4)
    data = b"II*\0" + struct.pack("<I", 8 + len(body)) + body + ifd
    assert near(drawn(tmp_path, data, Kind.TIFF)[0, 0], (227, 177, 147), tolerance=2)


def test_a_palette_with_transparent_entries_lies_on_white(tmp_path: Path) -> None:
    image = Image.new("P", (WIDTH, HEIGHT), 1)
    image.putpalette([*RED, *BLACK])
    image.paste(0, (0, 0, WIDTH // 2, HEIGHT))
    page = drawn(tmp_path, encoded(image, "PNG", transparency=bytes([255, 0])), Kind.PNG)
    assert near(page[20, 5], RED)
    assert near(page[20, -5], WHITE)


@pytest.mark.parametrize(("mode", "key"), [("L", 0), ("RGB", BLACK)])
def test_a_transparent_shade_of_a_png_is_white(tmp_path: Path, mode: str, key: Any) -> None:
    page = drawn(tmp_path, encoded(Image.new(mode, (9, 9), 0), "PNG", transparency=key), Kind.PNG)
    assert near(page[4, 4], WHITE)


# ------------------------------------------------------------------------------------------------ depth


def test_16_bit_samples_are_scaled_not_clipped(tmp_path: Path) -> None:
    samples = np.full((HEIGHT, WIDTH), 60_000, np.uint16)
    samples[:, 30:] = 12_000
    for suffix, kind in ((".png", Kind.PNG), (".tif", Kind.TIFF), (".pgm", Kind.PNM), (".jp2", Kind.JP2)):
        page = drawn(tmp_path, cv2.imencode(suffix, samples)[1].tobytes(), kind)
        assert near(page[20, 5], (233,) * 3, tolerance=2), suffix
        assert near(page[20, -5], (46,) * 3, tolerance=2), suffix


def test_16_bit_colour_with_transparency_is_scaled_and_lies_on_white(tmp_path: Path) -> None:
    samples = np.zeros((HEIGHT, WIDTH, 4), np.uint16)
    samples[:, :30] = (10_000, 20_000, 60_000, 65_535)
    page = drawn(tmp_path, cv2.imencode(".png", samples)[1].tobytes(), Kind.PNG)
    assert near(page[20, 5], (233, 78, 39), tolerance=2)
    assert near(page[20, -5], WHITE)


def test_12_bits_in_16_use_the_whole_range(tmp_path: Path) -> None:
    samples = np.full((HEIGHT, WIDTH), 4095, np.uint16)
    samples[:, 30:] = 400
    page = drawn(tmp_path, cv2.imencode(".tif", samples)[1].tobytes(), Kind.TIFF)
    assert near(page[20, 5], WHITE)
    assert near(page[20, -5], (25,) * 3, tolerance=2)


@pytest.mark.parametrize(
    ("low", "high", "shown"), [(0.0, 1.0, (0, 255)), (0.25, 0.5, (64, 128)), (-3.0, 900.0, (0, 255))]
)
def test_float_tiffs_are_read(tmp_path: Path, low: float, high: float, shown: tuple[int, int]) -> None:
    samples = np.full((HEIGHT, WIDTH), low, np.float32)
    samples[:, 30:] = high
    samples[0, 0] = np.nan if low else low
    page = drawn(tmp_path, encoded(Image.fromarray(samples), "TIFF"), Kind.TIFF)
    assert near(page[20, 5], (shown[0],) * 3, tolerance=1)
    assert near(page[20, -5], (shown[1],) * 3, tolerance=1)


def test_a_netpbm_image_whose_white_is_15_is_white(tmp_path: Path) -> None:
    page = drawn(tmp_path, b"P5\n# by hand\n4 1\n15\n" + bytes([15, 15, 0, 0]), Kind.PNM)
    assert near(page[0, 0], WHITE)
    assert near(page[0, 3], BLACK)


@pytest.mark.parametrize(
    "data",
    [
        b"P1\n2 1\n1 0\n",
        b"P2\n2 1\n255\n0 255\n",
        b"P3\n2 1\n255\n0 0 0 255 255 255\n",
        b"P4\n2 1\n\x80",
        b"P7\nWIDTH 2\nHEIGHT 1\nDEPTH 3\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n" + bytes([0, 0, 0, 255, 255, 255]),
    ],
)
def test_every_netpbm_form_is_read(tmp_path: Path, data: bytes) -> None:
    page = drawn(tmp_path, data, Kind.PNM)
    assert near(page[0, 0], BLACK)
    assert near(page[0, 1], WHITE)


def test_a_jpeg_of_12_bits_is_refused_by_name(tmp_path: Path) -> None:
    data = bytearray(encoded(quartered(), "JPEG"))
    data[data.index(b"\xff\xc0") + 4] = 12
    with pytest.raises(Unreadable, match="12 bits a sample"):
        opened(tmp_path, bytes(data), Kind.JPEG)


# ------------------------------------------------------------------------------------------------ turn and proportions

STORED = {  # how a viewer's picture is stored under each orientation
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def stored(orientation: int, mode: str = "RGB") -> Image.Image:
    turn = STORED[orientation]
    return quartered(mode) if turn is None else quartered(mode).transpose(turn)


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize(
    ("kind", "form"), [(Kind.JPEG, "JPEG"), (Kind.PNG, "PNG"), (Kind.WEBP, "WEBP"), (Kind.AVIF, "AVIF")]
)
def test_exif_turns_the_page_exactly_once(tmp_path: Path, orientation: int, kind: Kind, form: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(stored(orientation), form, exif=exif, quality=95)
    page = drawn(tmp_path, data, kind)
    assert page.shape == (HEIGHT, WIDTH, 3)
    assert near(page[5, 5], RED, tolerance=25)
    assert near(page[5, -5], BLACK, tolerance=25)
    assert near(page[-5, 5], WHITE, tolerance=25)


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("options", [{}, {"compression": "group4"}, {"big_tiff": True}, {"compression": "zstd"}])
def test_tiff_turns_the_page_exactly_once(tmp_path: Path, orientation: int, options: dict[str, Any]) -> None:
    mode = "1" if options.get("compression") == "group4" else "RGB"
    data = encoded(stored(orientation, mode), "TIFF", tiffinfo={274: orientation}, **options)
    page = drawn(tmp_path, data, Kind.TIFF)
    assert page.shape == (HEIGHT, WIDTH, 3)
    assert near(page[5, -5], BLACK)
    assert near(page[-5, 5], WHITE)
    assert near(page[-5, -5], WHITE)


def test_a_fax_is_as_tall_as_its_paper(tmp_path: Path) -> None:
    image = Image.new("1", (1728, 1145), 1)
    data = encoded(image, "TIFF", compression="group4", dpi=(204, 98))
    page = drawn(tmp_path, data, Kind.TIFF)
    assert page.shape[0] == 1540
    assert abs(page.shape[1] - 1540 * 1728 / (1145 * 204 / 98)) <= 1


def test_a_turned_fax_is_stretched_along_the_axis_it_was_scanned_on(tmp_path: Path) -> None:
    data = encoded(Image.new("1", (400, 200), 1), "TIFF", dpi=(200, 100), tiffinfo={274: 6})
    assert drawn(tmp_path, data, Kind.TIFF).shape == (400, 400, 3)
    data = encoded(Image.new("1", (400, 300), 1), "TIFF", dpi=(200, 100), tiffinfo={274: 6})
    assert drawn(tmp_path, data, Kind.TIFF).shape == (400, 600, 3)


@pytest.mark.parametrize("name", PLAIN)
def test_large_images_shrink_to_the_edge_and_small_ones_stay(tmp_path: Path, name: str) -> None:
    kind, form, options = PLAIN[name]
    data = encoded(quartered().resize((300, 200)), form, **options)
    assert drawn(tmp_path, data, kind, longest_edge=100).shape == (67, 100, 3)
    assert drawn(tmp_path, data, kind, longest_edge=300).shape == (200, 300, 3)
    assert drawn(tmp_path, data, kind, longest_edge=1540).shape == (200, 300, 3)


def test_a_very_large_jpeg_is_shrunk_while_it_is_decoded_and_looks_the_same(tmp_path: Path) -> None:
    data = encoded(quartered().resize((1600, 1066)), "JPEG", quality=95)
    page = drawn(tmp_path, data, Kind.JPEG, longest_edge=90)
    assert page.shape == (60, 90, 3)
    assert near(page[10, 10], RED)
    assert near(page[10, -10], BLACK)


def test_a_ribbon_keeps_a_pixel_of_breadth(tmp_path: Path) -> None:
    assert drawn(tmp_path, encoded(Image.new("L", (9000, 3), 0), "PNG"), Kind.PNG, longest_edge=500).shape == (
        1,
        500,
        3,
    )


# ------------------------------------------------------------------------------------------------ pages


def test_each_directory_of_a_tiff_is_a_page(tmp_path: Path) -> None:
    shades = [Image.new("L", (20, 10 + n), 40 * n) for n in range(5)]
    data = encoded(shades[0], "TIFF", save_all=True, append_images=shades[1:])
    document = opened(tmp_path, data, Kind.TIFF)
    assert document.pages == 5
    for n in (4, 0, 2):
        page = document.draw(n + 1).pixels
        assert page.shape == (10 + n, 20, 3)
        assert near(page[5, 5], (40 * n,) * 3)


def test_thumbnails_in_a_tiff_are_not_pages(tmp_path: Path) -> None:
    page, thumbnail = Image.new("L", (200, 100), 200), Image.new("L", (20, 10), 200)
    thumbnail.encoderinfo = {"tiffinfo": {254: 1}}
    data = encoded(page, "TIFF", save_all=True, append_images=[thumbnail, page])
    document = opened(tmp_path, data, Kind.TIFF)
    assert [document.draw(n).pixels.shape for n in range(1, document.pages + 1)] == [(100, 200, 3)] * 2


@pytest.mark.parametrize(("kind", "form"), [(Kind.GIF, "GIF"), (Kind.WEBP, "WEBP")])
def test_each_frame_of_an_animation_is_a_page_as_it_looks_then(tmp_path: Path, kind: Kind, form: str) -> None:
    frames = []
    for n in range(3):
        frame = Image.new("RGB", (WIDTH, HEIGHT), WHITE)
        frame.paste(BLACK, (0, 0, 10 + 20 * n, HEIGHT))
        frames.append(frame)
    data = encoded(frames[0], form, save_all=True, append_images=frames[1:], duration=100, lossless=True)
    document = opened(tmp_path, data, kind)
    assert document.pages == 3
    for n in (2, 0, 1):
        page = document.draw(n + 1).pixels
        assert near(page[20, 5 + 20 * n], BLACK)
        assert n == 2 or near(page[20, 15 + 20 * n], WHITE)


@pytest.mark.parametrize(("kind", "form"), [(Kind.PNG, "PNG"), (Kind.AVIF, "AVIF")])
def test_an_animated_still_is_one_page(tmp_path: Path, kind: Kind, form: str) -> None:
    other = Image.new("RGB", (WIDTH, HEIGHT), BLACK)
    data = encoded(quartered(), form, save_all=True, append_images=[other], duration=100)
    document = opened(tmp_path, data, kind)
    assert document.pages == 1
    assert near(document.draw(1).pixels[5, 5], RED, tolerance=40)


def test_too_many_pages_are_refused(tmp_path: Path) -> None:
    shades = [Image.new("L", (9, 9), 50 * n) for n in range(5)]
    for form, kind in (("TIFF", Kind.TIFF), ("GIF", Kind.GIF), ("WEBP", Kind.WEBP)):
        data = encoded(shades[0], form, save_all=True, append_images=shades[1:])
        with pytest.raises(Unreadable, match="too many pages"):
            opened(tmp_path, data, kind, max_pages=4)


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("name", PLAIN)
def test_too_many_pixels_are_refused_before_they_are_decoded(tmp_path: Path, name: str) -> None:
    kind, form, options = PLAIN[name]
    with pytest.raises(Unreadable, match=r"too large: 60 × 40 pixels .* 2\.4 times"):
        opened(tmp_path, encoded(quartered(), form, **options), kind, max_pixels=1000)


def test_a_huge_page_of_a_tiff_fails_alone(tmp_path: Path) -> None:
    pages = [Image.new("L", (20, 20), 99), Image.new("L", (200, 200), 99)]
    data = encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    document = opened(tmp_path, data, Kind.TIFF, max_pixels=1000)
    assert document.draw(1).pixels.shape == (20, 20, 3)
    with pytest.raises(Unreadable, match="too large"):
        document.draw(2)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("kept", [0.3, 0.8, 0.99])
def test_a_cut_off_image_is_never_taken_for_a_whole_one(tmp_path: Path, name: str, kept: float) -> None:
    kind, form, options = PLAIN[name]
    noise = np.random.default_rng(1).integers(0, 255, (90, 120, 3), np.uint8)
    data = encoded(Image.fromarray(noise), form, **options)
    cut = data[: int(len(data) * kept)]
    with pytest.raises(Unreadable, match=r"corrupt|no pages|empty"):
        opened(tmp_path, cut, kind).draw(1)


def test_damage_within_a_jpeg_is_an_error_or_a_whole_picture(tmp_path: Path) -> None:
    data = bytearray(encoded(quartered().resize((600, 400)), "JPEG"))
    data[len(data) // 2 : len(data) // 2 + 40] = bytes(40)
    try:
        assert drawn(tmp_path, bytes(data), Kind.JPEG).shape == (400, 600, 3)
    except Unreadable as error:
        assert str(error).startswith("corrupt")


def test_a_circle_of_tiff_pages_is_refused(tmp_path: Path) -> None:
    data = bytearray(encoded(Image.new("L", (9, 9), 0), "TIFF"))
    (first,) = struct.unpack_from("<I", data, 4)
    (tags,) = struct.unpack_from("<H", data, first)
    struct.pack_into("<I", data, first + 2 + 12 * tags, first)
    with pytest.raises(Unreadable, match="circle"):
        opened(tmp_path, bytes(data), Kind.TIFF)


@pytest.mark.parametrize(("code", "name"), [(50002, "JPEG XL"), (34712, "JPEG 2000")])
def test_an_unknown_tiff_compression_is_named(tmp_path: Path, code: int, name: str) -> None:
    data = bytearray(encoded(Image.new("L", (9, 9), 0), "TIFF"))
    at = data.index(struct.pack("<HHI", 259, 3, 1))
    struct.pack_into("<H", data, at + 8, code)
    with pytest.raises(Unreadable, match=name):
        opened(tmp_path, bytes(data), Kind.TIFF)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="0 bytes"):
        opened(tmp_path, b"", Kind.PNG)


def test_the_file_is_not_changed_by_reading_it(tmp_path: Path) -> None:
    data = encoded(stored(6), "TIFF", tiffinfo={274: 6}, save_all=True, append_images=[quartered()])
    document = opened(tmp_path, data, Kind.TIFF)
    document.draw(1)
    document.draw(2)
    assert (tmp_path / "image").read_bytes() == data
