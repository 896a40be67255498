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
_WHITE = 255


def made(pixels: NDArray[np.uint8], frame: Size) -> int:
    """A new descriptor of a raster of `frame` size, `pixels` (height × width × RGB) at its top left, the rest white."""
    height, width = pixels.shape[:2]
    fd = os.memfd_create("inboxd page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    length = _length(frame)
    os.ftruncate(fd, length)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    with mmap.mmap(fd, length) as memory:
        raster = np.frombuffer(memory, np.uint8).reshape(frame.height, frame.width, CHANNELS)
        raster[:height, :width] = pixels
        raster[:height, width:] = _WHITE
        raster[height:] = _WHITE
        del raster  # the map can't be closed while the array looks into it
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
