"""Page images on their way from worker to daemon: sealed anonymous memory, passed as a file descriptor.

It has no name and lies in no folder, so nothing is left behind however a process ends, and the size of /dev/shm
(64 MB in a container) doesn't matter. It is sealed against shrinking: a worker can't pull it from under a reader.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
from typing import TYPE_CHECKING

import numpy as np

from inboxd.core.page_size import Size

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHANNELS = 3


def made(sheet: NDArray[np.uint8]) -> int:
    """A new descriptor of a raster that holds `sheet` (height × width × RGB, contiguous)."""
    fd = os.memfd_create("inboxd page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    # Written, not mapped: taking a page fault for every 4 KiB would double the cost.
    rest = sheet.reshape(-1).data
    while rest:
        rest = rest[os.write(fd, rest) :]
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd


def taken(fd: int, frame: Size) -> NDArray[np.uint8]:
    """The raster behind a descriptor from a worker, which is closed; the memory lives as long as the array.

    Raises:
        ValueError: it is not a sealed raster of that size: the worker is not to be trusted.
    """
    try:
        sealed = fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
        if not sealed or os.fstat(fd).st_size != _length(frame):
            raise ValueError("the raster is not sealed, or not of the size that was said")
        # Private: whoever writes into the array writes into a copy.
        if sys.version_info >= (3, 13):
            memory = mmap.mmap(fd, _length(frame), flags=mmap.MAP_PRIVATE, trackfd=False)
        else:
            memory = mmap.mmap(fd, _length(frame), flags=mmap.MAP_PRIVATE)
    except OSError as error:
        raise ValueError(f"the raster cannot be mapped: {error.strerror}") from error
    finally:
        os.close(fd)
    return np.frombuffer(memory, np.uint8).reshape(frame.height, frame.width, CHANNELS)


def _length(frame: Size) -> int:
    return frame.width * frame.height * CHANNELS
