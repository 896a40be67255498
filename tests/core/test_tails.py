from __future__ import annotations

import struct
from collections.abc import Callable

import cv2
import numpy as np
import pymupdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.core.sniffing import HEAD, kind_of
from inboxd.core.sparing import MAX_BYTES, MAX_STEPS
from inboxd.core.tails import TAIL, missing
from inboxd.model import Kind

NOISE = np.random.default_rng(1).integers(0, 255, (160, 120, 3), np.uint8)


def lacks(data: bytes, kind: Kind | None = None, *, patient: bool = True, zeros_count: bool = False) -> str:
    kind = kind or kind_of(data[:HEAD])
    assert kind is not None

    def read(offset: int, length: int) -> bytes:
        assert offset >= 0 and length >= 0
        return data[offset : offset + length]

    return missing(kind, len(data), read, patient=patient, zeros_count=zeros_count)


def drawn(suffix: str, *options: int) -> bytes:
    done, data = cv2.imencode(suffix, NOISE, list(options))
    assert done
    return data.tobytes()


def pages(count: int = 3) -> list[np.ndarray]:
    return [np.roll(NOISE, page, axis=0) for page in range(count)]


def tiff(*options: int) -> bytes:
    done, data = cv2.imencodemulti(".tif", pages(), list(options))
    assert done
    return data.tobytes()


def pdf(**options: object) -> bytes:
    with pymupdf.open() as document:
        for _ in range(3):
            document.new_page().insert_image((50, 50, 500, 700), stream=drawn(".jpg"))
        return bytes(document.tobytes(**options))


def ifd_first(order: str = "<", big: bool = False) -> bytes:
    """A TIFF that has its directory before its data, as many scanners write it."""
    strip = bytes(range(1, 251)) * 4
    at = 16 if big else 8
    tags = [(256, 10), (257, 100), (258, 8), (273, 0), (278, 100), (279, len(strip))]
    entry, count, link = ("HHQQ", "Q", "Q") if big else ("HHII", "H", "I")
    data_at = at + struct.calcsize(order + count) + len(tags) * struct.calcsize(order + entry) + struct.calcsize(link)
    out = (b"II" if order == "<" else b"MM") + struct.pack(
        order + ("HHHQ" if big else "HI"), *((43, 8, 0, 16) if big else (42, 8))
    )
    out += struct.pack(order + count, len(tags))
    for tag, value in tags:
        out += struct.pack(order + entry, tag, 16 if big else 4, 1, data_at if tag == 273 else value)
    return out + struct.pack(order + link, 0) + strip


WHOLE: dict[str, Callable[[], bytes]] = {
    "pdf": pdf,
    "linear pdf": lambda: pdf(garbage=4, deflate=True),
    "jpeg": lambda: drawn(".jpg"),
    "progressive jpeg": lambda: drawn(".jpg", cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
    "jpeg with restarts": lambda: drawn(".jpg", cv2.IMWRITE_JPEG_RST_INTERVAL, 4),
    "png": lambda: drawn(".png"),
    "tiff": tiff,
    "tiff, not packed": lambda: tiff(cv2.IMWRITE_TIFF_COMPRESSION, 1),
    "tiff, directory first": ifd_first,
    "tiff, directory first, Motorola": lambda: ifd_first(">"),
    "big tiff": lambda: ifd_first("<", big=True),
    "big tiff, Motorola": lambda: ifd_first(">", big=True),
    "webp": lambda: drawn(".webp"),
    "bmp": lambda: drawn(".bmp"),
    "gif": lambda: drawn(".gif"),
    "jp2": lambda: drawn(".jp2"),
    "avif": lambda: drawn(".avif"),
    "ppm": lambda: drawn(".ppm"),
    "plain ppm": lambda: drawn(".ppm", cv2.IMWRITE_PXM_BINARY, 0),
    "pam": lambda: drawn(".pam"),
}
made: dict[str, bytes] = {}


def whole(name: str) -> bytes:
    if name not in made:
        made[name] = WHOLE[name]()
    return made[name]


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_file_lacks_nothing(name: str) -> None:
    assert lacks(whole(name)) == ""
    assert lacks(whole(name), patient=False) == ""


@pytest.mark.parametrize("name", [name for name in WHOLE if name != "plain ppm"])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.95])
def test_a_cut_file_lacks_something_and_says_what(name: str, share: float) -> None:
    data = whole(name)[: int(len(whole(name)) * share)]
    said = lacks(data)
    assert said and "\n" not in said
    assert lacks(data, patient=False)


def test_a_picture_in_plain_numbers_is_only_known_to_lack_many() -> None:
    data = whole("plain ppm")
    assert lacks(data[: len(data) // 3])


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_that_was_preallocated_lacks_its_end(name: str) -> None:
    data = whole(name)
    half = data[: len(data) // 2].ljust(len(data), b"\0")
    if len(data) > 10_000:
        assert lacks(half, zeros_count=True)


@pytest.mark.parametrize("name", ["jpeg", "png", "tiff", "webp", "bmp", "gif", "avif", "ppm", "pdf"])
def test_junk_at_the_end_does_no_harm(name: str) -> None:
    assert lacks(whole(name) + b"\r\njunk\0\0") == ""


def test_a_phone_may_append_a_video_to_a_jpeg() -> None:
    assert lacks(whole("jpeg") + b"\0\0\0\x18ftypmp42" + b"v" * 3_000_000) == ""


def test_a_thumbnail_s_end_is_not_the_jpeg_s() -> None:
    thumbnail = drawn(".jpg")[:2000] + b"\xff\xd9"
    segment = b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 2) + thumbnail
    jpeg = whole("jpeg")
    with_thumbnail = jpeg[:2] + segment + jpeg[2:]
    assert lacks(with_thumbnail) == ""
    assert lacks(with_thumbnail[: 2 + len(segment) + 300]) != ""


def test_junk_between_jpeg_segments_is_skipped() -> None:
    jpeg = whole("jpeg")
    first = 4 + int.from_bytes(jpeg[4:6], "big")
    assert lacks(jpeg[:first] + b"\0\1\2junk" + jpeg[first:]) == ""


def test_zeros_after_the_end_of_a_pdf_are_padding() -> None:
    assert lacks(whole("pdf") + b"\0" * 1500) == ""


def test_a_pdf_with_junk_after_its_end_or_without_one_is_taken_when_patience_is_over() -> None:
    junk = whole("pdf") + b"x" * 5000
    assert lacks(junk) == "the PDF has no end (%%EOF)"
    assert lacks(junk, patient=False) == ""
    ending = b"%PDF-1.4\n1 0 obj <</Type /Catalog>>\nendobj\n"
    assert lacks(ending) != ""
    assert lacks(ending, patient=False) == ""


def test_the_first_end_mark_of_a_linearized_pdf_is_none() -> None:
    half = b"%PDF-1.4\nfirst page\nstartxref\n0\n%%EOF\n" + b"\1\2\3" * 4000
    assert lacks(half, patient=False) != ""


def test_a_tiff_whose_first_directory_is_still_to_come() -> None:
    assert lacks(b"II*\0\0\0\0\0" + b"\1" * 500) == "the TIFF has no page yet"


def test_a_tiff_whose_directories_go_round_in_a_circle_ends() -> None:
    directory = struct.pack("<H", 0) + struct.pack("<I", 8)
    assert lacks(b"II*\0\x08\0\0\0" + directory) == ""


def test_a_black_picture_ends_in_zeros() -> None:
    done, data = cv2.imencode(".bmp", np.zeros((100, 100, 3), np.uint8))
    assert done
    assert lacks(data.tobytes()) == ""
    assert lacks(data.tobytes(), zeros_count=True) == "its end is not written yet (zeros)"


def test_a_bitmap_that_claims_the_wrong_size_goes_by_its_rows() -> None:
    bmp = bytearray(whole("bmp"))
    bmp[2:6] = struct.pack("<I", 12)
    assert lacks(bytes(bmp)) == ""
    assert lacks(bytes(bmp[:-5])) == f"5 of {len(bmp):,} bytes are missing"


@given(
    st.sampled_from(list(WHOLE)),
    st.integers(0, 4000),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=8),
    st.booleans(),
)
def test_whatever_the_bytes_there_is_an_answer(
    name: str, length: int, edits: list[tuple[int, int]], patient: bool
) -> None:
    data = bytearray(whole(name)[:length])
    kind = kind_of(whole(name)[:HEAD])
    assert kind is not None
    for at, value in edits:
        if at < len(data):
            data[at] = value
    assert isinstance(lacks(bytes(data), kind, patient=patient), str)


# ------------------------------------------------------------------- files that are made to cost memory or time

LARGE = 4 * 1024**3


class Sparse:
    """A large file of zeros with something written here and there; what is read of it is counted."""

    def __init__(self, size: int, parts: dict[int, bytes]) -> None:
        self._size = size
        self._parts = parts
        self.reads = 0
        self.bytes = 0

    def lacks(self, kind: Kind) -> str:
        return missing(kind, self._size, self._read, patient=True)

    def _read(self, offset: int, length: int) -> bytes:
        assert length <= MAX_BYTES
        length = max(0, min(length, self._size - offset))
        self.reads += 1
        self.bytes += length
        data = bytearray(length)
        for at, part in self._parts.items():
            start, end = max(at, offset), min(at + len(part), offset + length)
            if start < end:
                data[start - offset : end - offset] = part[start - at : end - at]
        return bytes(data)


def big_tiff(first: int) -> bytes:
    return b"II+\0" + struct.pack("<HHQ", 8, 0, first)


def directory(entries: list[tuple[int, int, int]], following: int) -> bytes:
    """Of a BigTIFF; its entries are 8-byte integers: tag, how many, and where."""
    packed = b"".join(struct.pack("<HHQQ", tag, 16, items, where) for tag, items, where in entries)
    return struct.pack("<Q", len(entries)) + packed + struct.pack("<Q", following)


@given(st.integers(4097, 2**64 - 1), st.sampled_from("<>"))
def test_a_tiff_directory_may_claim_any_number_of_entries(count: int, order: str) -> None:
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HHHQQ", 43, 8, 0, 16, count)
    file = Sparse(LARGE, {0: head})
    assert file.lacks(Kind.TIFF) == ""
    assert file.bytes <= TAIL + len(head)


def test_a_tiff_may_name_its_strips_over_and_over() -> None:
    file = Sparse(LARGE, {0: big_tiff(16) + directory([(273, 100_000, 1_000_000)] * 4096, 0)})
    assert file.lacks(Kind.TIFF) == ""
    assert file.bytes < 1_000_000


def test_directories_of_a_tiff_may_share_one_long_list() -> None:
    length = len(directory([(273, 100_000, 1_000_000)], 0))
    chain = (directory([(273, 100_000, 1_000_000)], 16 + (number + 1) * length) for number in range(1000))
    file = Sparse(LARGE, {0: big_tiff(16) + b"".join(chain)})
    assert file.lacks(Kind.TIFF) == ""
    assert file.bytes <= MAX_BYTES + TAIL


def test_directories_of_a_tiff_may_be_many_and_long() -> None:
    entries = directory([(0, 0, 0)] * 4096, 0)[:-8]
    length = len(entries) + 8
    chain = (entries + struct.pack("<Q", 16 + (number + 1) * length) for number in range(300))
    file = Sparse(LARGE, {0: big_tiff(16) + b"".join(chain)})
    assert file.lacks(Kind.TIFF) == ""
    assert file.bytes <= MAX_STEPS * 20 + length + TAIL


def test_a_jpeg_is_not_searched_for_its_end_for_ever() -> None:
    file = Sparse(LARGE, {0: b"\xff\xd8\xff\xda\0\2"})
    assert file.lacks(Kind.JPEG) == ""
    assert file.bytes <= MAX_BYTES + TAIL


GIF_HEAD = b"GIF89a" + bytes(7) + b"!\xfe"


def test_a_gif_of_small_blocks_is_read_in_large_ones() -> None:
    comment = GIF_HEAD + b"\1x" * 200_000
    file = Sparse(len(comment) + 2, {0: comment + b"\0;"})
    assert file.lacks(Kind.GIF) == ""
    assert file.reads < 20
    assert Sparse(len(comment), {0: comment}).lacks(Kind.GIF) == "the GIF has no end"


def test_a_gif_of_small_blocks_without_end_is_given_up() -> None:
    comment = GIF_HEAD + b"\1x" * 2_000_000
    file = Sparse(len(comment), {0: comment})
    assert file.lacks(Kind.GIF) == ""
    assert file.bytes <= 2 * MAX_STEPS + 100_000
