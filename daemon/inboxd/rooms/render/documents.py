"""What a worker can open: a document gives its pages one by one, and says so when it can't."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Unreadable(Exception):
    """A document or page that can't be read, now or ever; the message is for a person."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A page as pixels: uint8, height × width × RGB, upright, longest edge as asked for."""

    pixels: NDArray[np.uint8]
    warnings: tuple[str, ...] = ()  # that something of the page may be missing


class Document(Protocol):
    """An open document of `pages` pages."""

    pages: int

    def draw(self, number: int) -> Drawn:
        """Draw a page, counted from 1.

        Raises:
            Unreadable: this page can't be.
            MemoryError: it needs more than there is.
        """
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


def mapped(fd: int, protection: int) -> mmap.mmap:
    """The open file in memory, read as it is looked at; what is written there stays there.

    Raises:
        Unreadable: it is empty.
        OSError: it can't be mapped.
    """
    try:
        return mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=protection)
    except ValueError as error:  # mmap's word for an empty file
        raise Unreadable("empty: 0 bytes") from error
