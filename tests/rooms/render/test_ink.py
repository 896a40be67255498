"""Ink is what a person would call writing: not paper, noise, shade, show-through or the scanner's edge."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from tests.papers import EMPTY, NEARLY_EMPTY, edged, noisy, paper, rng, with_text

from inboxd.rooms.render.ink import ink

BLANK = 1e-5
"""Below this a page is blank: what the tests for empty and for nearly empty pages keep apart."""


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_page_has_no_ink(name: str) -> None:
    assert ink(EMPTY[name]) < BLANK


@pytest.mark.parametrize("name", NEARLY_EMPTY)
def test_a_page_with_nothing_but_its_number_has_ink(name: str) -> None:
    assert BLANK * 1.5 < ink(NEARLY_EMPTY[name]) < 0.001


@pytest.mark.parametrize("shade", [0, 80, 140, 170])
def test_a_full_page_has_much_ink_also_when_it_is_pale(shade: int) -> None:
    assert 0.005 < ink(with_text(paper(), shade)) < 0.2


def test_small_grey_print_counts_as_much_as_black() -> None:
    """To a glance its strokes are too pale: it must not be content with the few that it sees."""

    def printed(shade: int) -> float:
        page = Image.fromarray(paper())
        for line in range(70):
            words = "The quick brown fox jumps over the lazy dog 1234567890 and some more of the same, and so on"
            ImageDraw.Draw(page).text((90, 90 + 19 * line), words, (shade,) * 3, ImageFont.load_default(11))
        return ink(np.array(page))

    assert printed(0x77) > 0.5 * printed(0)


def test_white_on_black_is_written_on() -> None:
    assert ink(255 - with_text(paper())) > 0.05


def test_text_right_up_to_the_border_counts() -> None:
    assert ink(with_text(paper())[110:400, 85:900]) > 0.02


def test_the_way_a_page_lies_matters_little() -> None:
    page = noisy(with_text(paper()))
    upright, turned = ink(page), ink(np.rot90(page).copy())
    assert abs(upright - turned) < 0.3 * upright


@pytest.mark.parametrize("shape", [(1, 1), (1, 1540), (1540, 1), (3, 1200), (28, 28), (1001, 1), (999, 2)])
def test_pictures_of_every_shape_can_be_judged(shape: tuple[int, int]) -> None:
    assert ink(np.full((*shape, 3), 255, np.uint8)) == 0
    assert 0 <= ink(rng.integers(0, 255, (*shape, 3), np.uint8)) <= 1


def test_the_page_is_left_as_it_is() -> None:
    page = edged(with_text(paper()))
    before = page.copy()
    ink(page)
    assert np.array_equal(page, before)
