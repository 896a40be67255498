"""Page images on their way from a worker to the daemon: sheets of memory that both have mapped, used again and again.

The memory is anonymous. It has no name and lies in no folder, so nothing is left behind however a process ends, and
the size of /dev/shm (64 MB in a container) doesn't matter. Sheets are used again, as fresh memory would cost a third
of a typeset page's time. The daemon alone says which sheet is free; the worker can't shrink them under a reader.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from inboxd.core.page_size import Size, padded

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHEETS = 512
"""For each worker: more pages than an engine holds at a time. They take address space, and memory once used."""

KEPT = 8
"""Free sheets that keep their memory; that of others goes back to the system."""

CHANNELS = 3


def sheet_bytes(longest_edge: int, grid: int) -> int:
    """Room for the largest page, in whole pages of memory."""
    largest = padded(Size(longest_edge, longest_edge), grid)
    return -(-largest.width * largest.height * CHANNELS // mmap.PAGESIZE) * mmap.PAGESIZE


class Sheets:
    """The daemon's side of one worker's sheets."""

    def __init__(self, size: int, on_return: Callable[[], None]) -> None:
        """`size` bytes each; `on_return` is called, on any thread, when the first becomes free after there was none."""
        self._size = size
        self._on_return = on_return
        self.fd = os.memfd_create("inboxd pages", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size * SHEETS)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._memory = mmap.mmap(self.fd, size * SHEETS)
        self._free = deque(range(SHEETS))  # those with memory on the right
        self._warm = 0  # free ones that have memory

    def hand_over(self) -> None:
        """The worker has its own descriptor by now."""
        os.close(self.fd)

    @property
    def any_free(self) -> bool:
        return bool(self._free)

    def take(self) -> int:
        """A free sheet, best one that has memory already."""
        self._warm = max(0, self._warm - 1)
        return self._free.pop()

    def give_back(self, sheet: int) -> None:
        """It is free again. From any thread."""
        was_empty = not self._free
        if self._warm < KEPT:
            self._warm += 1
            self._free.append(sheet)
        else:
            self._memory.madvise(mmap.MADV_REMOVE, sheet * self._size, self._size)
            self._free.appendleft(sheet)
        if was_empty:
            self._on_return()

    def page(self, sheet: int, frame: Size) -> NDArray[np.uint8]:
        """The pixels on a sheet, which is given back when nothing refers to them any more."""
        length = frame.height * frame.width * CHANNELS
        pixels = np.frombuffer(self._memory, np.uint8, length, sheet * self._size)
        weakref.finalize(pixels, self.give_back, sheet).atexit = False
        return pixels.reshape(frame.height, frame.width, CHANNELS)


class Desk:
    """The worker's side: where it lays out pages."""

    def __init__(self, fd: int, size: int) -> None:
        self._size = size
        self._memory = mmap.mmap(fd, size * SHEETS)
        os.close(fd)

    def lay(self, pixels: NDArray[np.uint8], sheet: int, frame: Size) -> None:
        """Put `pixels` (height × width × RGB) at the top left of a sheet of `frame` size, white round them."""
        height, width = pixels.shape[:2]
        flat = np.frombuffer(self._memory, np.uint8, frame.height * frame.width * CHANNELS, sheet * self._size)
        paper = flat.reshape(frame.height, frame.width, CHANNELS)
        paper[:height, :width] = pixels
        paper[:height, width:] = 255
        paper[height:] = 255
