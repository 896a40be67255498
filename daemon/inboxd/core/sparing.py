"""Reads of a file within bounds: one that was made to cost the daemon its memory or its time gets little of either."""

from __future__ import annotations

from collections.abc import Callable

MAX_BYTES = 128 * 1024**2
"""Bytes that are read of a file, at most."""
MAX_STEPS = 1_000_000
"""Steps that are taken through a file, at most: reads, and entries of its lists. A TIFF of 20,000 pages takes half."""

_AHEAD = 64 * 1024

Read = Callable[[int, int], bytes]
"""`read(offset, length)` gives what the file has there; fewer bytes than asked for where it ends."""


class CannotTell(Exception):
    """To find out would take too much."""


class Sparing:
    """A `Read` within MAX_BYTES and MAX_STEPS.

    Raises:
        CannotTell: whatever is called, once they are spent.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._bytes = MAX_BYTES
        self._steps = MAX_STEPS
        self._ahead, self._ahead_at = b"", 0

    def __call__(self, offset: int, length: int) -> bytes:
        self.step()
        self._bytes -= length
        if self._bytes < 0:
            raise CannotTell
        return self._read(offset, length)

    def byte(self, at: int) -> bytes:
        """One byte, or none where the file ends, for a way of small steps: a block is read ahead."""
        self.step()
        if not 0 <= at - self._ahead_at < len(self._ahead):
            self._ahead, self._ahead_at = self(at, _AHEAD), at
        return self._ahead[at - self._ahead_at :][:1]

    def step(self) -> None:
        """Count a step that reads nothing."""
        self._steps -= 1
        if self._steps < 0:
            raise CannotTell
