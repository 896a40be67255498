"""Rasters cross from worker to daemon as sealed memory without a name."""

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from inboxd.core.page_size import Size
from inboxd.rooms.render import raster


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_pixels_arrive_as_they_left() -> None:
    pixels = np.random.default_rng(1).integers(0, 255, (30, 20, 3), np.uint8)
    arrived = raster.taken(raster.made(pixels), Size(20, 30))
    assert arrived.flags.c_contiguous
    assert np.array_equal(arrived, pixels)


def test_nothing_is_left_once_the_pixels_are_gone() -> None:
    before = open_files()
    arrived = raster.taken(raster.made(np.zeros((9, 9, 3), np.uint8)), Size(9, 9))
    assert arrived.sum() == 0
    del arrived
    gc.collect()
    assert open_files() == before


def test_whoever_writes_into_the_pixels_writes_into_a_copy() -> None:
    fd = raster.made(np.zeros((9, 9, 3), np.uint8))
    other = os.dup(fd)
    raster.taken(fd, Size(9, 9))[:] = 7
    assert raster.taken(other, Size(9, 9)).max() == 0


def test_a_raster_of_another_size_is_not_taken() -> None:
    before = open_files()
    with pytest.raises(ValueError, match="size"):
        raster.taken(raster.made(np.zeros((9, 9, 3), np.uint8)), Size(9, 10))
    assert open_files() == before


def test_memory_that_could_shrink_under_the_reader_is_not_taken(tmp_path: Path) -> None:
    loose = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
    os.ftruncate(loose, 9 * 9 * 3)
    with pytest.raises(ValueError, match="sealed"):
        raster.taken(loose, Size(9, 9))
    (tmp_path / "file").write_bytes(bytes(9 * 9 * 3))
    with pytest.raises(ValueError, match="cannot be mapped"):
        raster.taken(os.open(tmp_path / "file", os.O_RDWR), Size(9, 9))


def test_a_sealed_raster_cannot_be_shrunk() -> None:
    fd = raster.made(np.zeros((9, 9, 3), np.uint8))
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    os.close(fd)
