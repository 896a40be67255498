"""The orientation model tells how every sample page lies, and leaves pages without text alone."""

import numpy as np
import pytest
from tests import corpus, drawing

from inboxd.engines.orientation import SURE, PageOrientation

AS_FILED = {"en_notice_turned90.png": 90}


@pytest.fixture(scope="module")
def orientation() -> PageOrientation:
    return PageOrientation()


@pytest.mark.parametrize("sample", corpus.samples(), ids=lambda sample: sample.path.name)
def test_all_four_turns_of_a_page_are_told_apart(orientation: PageOrientation, sample: corpus.Sample) -> None:
    for page in drawing.pages(sample.path):
        for quarter in range(4):
            turned = np.ascontiguousarray(np.rot90(page.pixels, -quarter))
            turn = orientation(turned)
            assert turn.degrees == (AS_FILED.get(sample.path.name, 0) + 90 * quarter) % 360
            assert turn.probability >= SURE


def test_turning_upright_undoes_the_turn(orientation: PageOrientation) -> None:
    page = drawing.pages(corpus.FOLDER / "fr_pangram_scan.pdf")[0].pixels
    turned = np.ascontiguousarray(np.rot90(page, -3))
    upright, degrees = orientation.upright(turned)
    assert degrees == 270
    assert np.array_equal(upright, page)


@pytest.mark.parametrize("shape", [(1, 1), (1540, 1090), (3, 1540), (40, 25)])
def test_a_page_without_text_is_left_as_it_lies(orientation: PageOrientation, shape: tuple[int, int]) -> None:
    page = np.full((*shape, 3), 255, np.uint8)
    assert orientation(page).probability < 0.5
    assert orientation.upright(page)[1] == 0
