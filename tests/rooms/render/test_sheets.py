"""Pages lie on sheets of shared memory, which go back and forth and are taken back when nobody looks any more."""

import gc
import os

import numpy as np
import pytest

from inboxd.core.page_size import Size
from inboxd.rooms.render import sheets
from inboxd.rooms.render.sheets import Desk, Sheets, sheet_bytes

EDGE, GRID = 1540, 28
SIZE = sheet_bytes(EDGE, GRID)
SMALL = Size(28, 56)


class Table:
    """Both sides in one process."""

    def __init__(self) -> None:
        self.returns = 0
        self.sheets = Sheets(SIZE, self._returned)
        self.desk = Desk(os.dup(self.sheets.fd), SIZE)

    def _returned(self) -> None:
        self.returns += 1

    def memory(self) -> int:
        """Bytes that the sheets really take."""
        return os.fstat(self.sheets.fd).st_blocks * 512

    def page(self, shade: int, frame: Size = SMALL) -> np.ndarray:
        sheet = self.sheets.take()
        self.desk.lay(np.full((frame.height - 6, frame.width - 8, 3), shade, np.uint8), sheet, frame)
        return self.sheets.page(sheet, frame)


def test_there_is_room_for_the_largest_page() -> None:
    assert SIZE >= 1540 * 1540 * 3
    assert sheet_bytes(1541, 28) >= 1568 * 1568 * 3
    assert SIZE % 4096 == 0


def test_pixels_arrive_as_they_left_padded_white() -> None:
    table = Table()
    pixels = np.random.default_rng(1).integers(0, 255, (30, 60, 3), np.uint8)[:, 10:30]
    sheet = table.sheets.take()
    table.desk.lay(pixels, sheet, Size(28, 56))
    page = table.sheets.page(sheet, Size(28, 56))
    assert page.shape == (56, 28, 3)
    assert page.flags.c_contiguous
    assert page.flags.writeable
    assert np.array_equal(page[:30, :20], pixels)
    assert page[30:].min() == 255
    assert page[:, 20:].min() == 255


def test_pages_do_not_touch_each_other() -> None:
    table = Table()
    full = Size(EDGE, EDGE)
    pages = [table.page(shade, full) for shade in range(5)]
    assert [int(page[0, 0, 0]) for page in pages] == [0, 1, 2, 3, 4]
    assert [int(page[-7, -9, 2]) for page in pages] == [0, 1, 2, 3, 4]


def test_a_sheet_is_used_again_only_when_nothing_refers_to_its_page() -> None:
    table = Table()
    page = table.page(7)
    corner = page[:5, :5]
    del page
    other = table.page(9)
    assert corner.max() == 7
    address = corner.__array_interface__["data"][0]
    assert other.__array_interface__["data"][0] != address
    del corner
    again = table.page(11)
    assert again.__array_interface__["data"][0] == address


def test_every_sheet_can_be_out_and_the_first_to_come_back_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "SHEETS", 3)
    table = Table()
    pages = [table.page(shade) for shade in range(3)]
    assert not table.sheets.any_free
    assert table.returns == 0
    pages.pop()
    assert table.sheets.any_free
    assert table.returns == 1
    pages.pop()
    assert table.returns == 1


def test_memory_of_a_crowd_of_pages_goes_back_to_the_system() -> None:
    table = Table()
    pages = [table.page(shade, Size(EDGE, EDGE)) for shade in range(30)]
    assert table.memory() > 25 * SIZE
    pages.clear()
    assert table.memory() <= sheets.KEPT * SIZE
    assert table.page(3)[0, 0, 0] == 3


def test_pages_outlive_the_worker_and_the_table() -> None:
    table = Table()
    page = table.page(5)
    table.sheets.hand_over()
    del table
    gc.collect()
    assert page[:50, :20].max() == 5


def test_a_worker_cannot_pull_the_memory_from_under_a_reader() -> None:
    table = Table()
    with pytest.raises(PermissionError):
        os.ftruncate(table.sheets.fd, 0)
