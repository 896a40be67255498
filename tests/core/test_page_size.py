import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.core.page_size import Size, excess, fitted, padded, reduction, with_square_pixels

sides = st.floats(min_value=1e-6, max_value=1e12)
edges = st.integers(min_value=1, max_value=4096)
pixels = st.integers(min_value=1, max_value=100_000)


@given(sides, sides, edges)
def test_a_page_fits_the_longest_edge_and_never_vanishes(width: float, height: float, edge: int) -> None:
    size = fitted(width, height, edge, enlarge=True)
    assert size.longest == edge
    assert min(size.width, size.height) >= 1


@given(pixels, pixels, edges)
def test_an_image_is_never_enlarged(width: int, height: int, edge: int) -> None:
    size = fitted(width, height, edge, enlarge=False)
    assert size.width <= width
    assert size.height <= height
    assert size.longest == min(edge, max(width, height))


@given(st.floats(min_value=100, max_value=2000), st.floats(min_value=100, max_value=2000))
def test_proportions_are_kept_to_the_pixel(width: float, height: float) -> None:
    size = fitted(width, height, 1540, enlarge=True)
    scale = 1540 / max(width, height)
    assert abs(size.width - width * scale) <= 1
    assert abs(size.height - height * scale) <= 1


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [
        (595, 842, Size(1088, 1540)),
        (612, 792, Size(1190, 1540)),
        (1, 1, Size(1540, 1540)),
        (2147483647, 1, Size(1540, 1)),
        (1e300, 1e300, Size(1540, 1540)),
        (3, 14400, Size(1, 1540)),
    ],
)
def test_pages_of_every_size_come_out_at_the_edge(width: float, height: float, expected: Size) -> None:
    assert fitted(width, height, 1540, enlarge=True) == expected


@pytest.mark.parametrize("side", [0, -1, math.inf, math.nan])
def test_a_page_without_a_size_is_named(side: float) -> None:
    with pytest.raises(ValueError, match="has no size"):
        fitted(side, 100, 1540, enlarge=True)


@given(pixels, pixels, st.integers(min_value=1, max_value=64))
def test_padding_reaches_the_next_multiple_and_no_further(width: int, height: int, grid: int) -> None:
    frame = padded(Size(width, height), grid)
    for side, original in ((frame.width, width), (frame.height, height)):
        assert side % grid == 0
        assert original <= side < original + grid


def test_a_fax_gets_its_true_proportions() -> None:
    assert with_square_pixels(Size(1728, 1145), 204, 98) == Size(1728, 2383)
    assert with_square_pixels(Size(1145, 1728), 98, 204) == Size(2383, 1728)


@pytest.mark.parametrize("densities", [(0, 0), (300, 300), (72, 0), (300, 290), (1, 65535), (65535, 1)])
def test_square_missing_and_absurd_densities_change_nothing(densities: tuple[float, float]) -> None:
    assert with_square_pixels(Size(100, 200), *densities) == Size(100, 200)


@given(pixels, pixels, edges)
def test_a_jpeg_is_shrunk_while_decoded_only_with_a_twofold_reserve(width: int, height: int, edge: int) -> None:
    size = Size(width, height)
    target = fitted(width, height, edge, enlarge=False)
    factor = reduction(size, target)
    assert factor in (1, 2, 4, 8)
    assert factor == 1 or size.longest / factor >= 2 * target.longest


def test_too_many_pixels_are_refused_saying_by_how_much() -> None:
    assert excess(Size(20_000, 20_000), 1, 400_000_000) == ""
    assert excess(Size(60_000, 60_000), 1, 400_000_000) == (
        "too large: 60000 × 60000 pixels are 3,600 million, 9.0 times the 400 million allowed (max_pixels)"
    )


def test_frames_of_an_animation_count_together() -> None:
    assert "in 1000 frames" in excess(Size(1000, 1000), 1000, 400_000_000)
    assert excess(Size(1000, 1000), 100, 400_000_000) == ""
