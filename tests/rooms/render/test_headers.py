"""Headers of image files: true sizes from whole files, and nothing but `Unreadable` from broken ones."""

import io
import mmap
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from inboxd.core.page_size import Size
from inboxd.model import Kind
from inboxd.rooms.render import tiff
from inboxd.rooms.render.documents import Unreadable
from inboxd.rooms.render.images import album_of
from inboxd.rooms.render.picture import Picture

MAX_PAGES = 50
FORMS: dict[str, tuple[Kind, str, dict[str, Any]]] = {
    "jpeg": (
        Kind.JPEG,
        "JPEG",
        {"exif": b"Exif\0\0" + b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"},
    ),
    "png": (Kind.PNG, "PNG", {"dpi": (300, 300)}),
    "bmp": (Kind.BMP, "BMP", {}),
    "webp lossy": (Kind.WEBP, "WEBP", {}),
    "webp lossless": (Kind.WEBP, "WEBP", {"lossless": True}),
    "webp animated": (Kind.WEBP, "WEBP", {"frames": True}),
    "gif": (Kind.GIF, "GIF", {"frames": True}),
    "tiff": (Kind.TIFF, "TIFF", {"frames": True, "dpi": (204, 98)}),
    "bigtiff": (Kind.TIFF, "TIFF", {"big_tiff": True}),
    "jp2": (Kind.JP2, "JPEG2000", {}),
    "j2k": (Kind.JP2, "JPEG2000", {"no_jp2": True}),
    "avif": (Kind.AVIF, "AVIF", {}),
    "pgm": (Kind.PNM, "PPM", {}),
}


@cache
def sample(name: str) -> bytes:
    _, form, options = FORMS[name]
    options = dict(options)
    image = Image.linear_gradient("L").resize((64, 48)).convert("L" if form == "PPM" else "RGB")
    if options.pop("frames", False):
        options |= {"save_all": True, "append_images": [image.rotate(90, expand=False), image.rotate(180)]}
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


@pytest.mark.parametrize("name", FORMS)
def test_a_whole_file_says_its_size(name: str) -> None:
    album = album_of(sample(name), FORMS[name][0], MAX_PAGES)
    assert {picture.size for picture in album.pictures} == {Size(64, 48)}
    assert len(album.pictures) == (3 if FORMS[name][2].get("frames") else 1)


@pytest.mark.parametrize("name", FORMS)
def test_every_cut_is_either_refused_or_read_as_what_is_there(name: str) -> None:
    data = sample(name)
    for length in range(len(data)):
        try:
            album = album_of(data[:length], FORMS[name][0], MAX_PAGES)
        except Unreadable:
            continue
        assert {picture.size for picture in album.pictures} == {Size(64, 48)}


@pytest.mark.parametrize("name", FORMS)
@given(data=st.data())
def test_damage_gives_a_picture_or_a_reason(name: str, data: st.DataObject) -> None:
    raw = bytearray(sample(name))
    for at in data.draw(st.lists(st.integers(0, min(len(raw), 400) - 1), min_size=1, max_size=6)):
        raw[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    mapped = mmap.mmap(-1, len(raw))  # as files come; it is pickier about offsets than bytes are
    mapped[:] = bytes(raw)
    try:
        album = album_of(mapped, FORMS[name][0], MAX_PAGES)
    except Unreadable as error:
        assert str(error)
        return
    assert 1 <= len(album.pictures) <= MAX_PAGES
    for picture in album.pictures:
        assert picture.size.width > 0
        assert picture.size.height > 0
        assert 1 <= picture.orientation <= 8


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.PDF])
@given(data=st.binary(max_size=300))
def test_rubbish_gives_a_picture_or_a_reason(kind: Kind, data: bytes) -> None:
    magic = {Kind.TIFF: b"II*\0", Kind.WEBP: b"RIFF", Kind.PNM: b"P5 ", Kind.GIF: b"GIF89a"}.get(kind, b"")
    try:
        album_of(magic + data, kind, MAX_PAGES)
    except Unreadable as error:
        assert str(error)


@given(st.binary(max_size=200))
def test_a_broken_exif_block_asks_for_no_turn(block: bytes) -> None:
    assert 1 <= tiff.orientation(b"Exif\0\0II*\0" + block) <= 8


def test_the_orientation_of_a_jpeg_is_found() -> None:
    assert album_of(sample("jpeg"), Kind.JPEG, 1).pictures == (Picture(Size(64, 48), 6, 1, 1),)


def test_a_tiff_says_its_densities_page_by_page() -> None:
    assert all(
        (page.x_density, page.y_density) == (204, 98) for page in album_of(sample("tiff"), Kind.TIFF, 9).pictures
    )
