"""The engine seam: all that the daemon asks of whatever reads pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from inboxd.model import EngineInfo, MemorySample, PageFailure, PageImage, PageText


@dataclass(frozen=True, slots=True)
class Limits:
    """How an engine wants to be fed; the reading room keeps to it.

    `pages_in_flight` bounds concurrent `read` calls; a micro-batch goes out when `batch_pages` pages wait or
    the oldest has waited `batch_wait_s`. `longest_edge` and `grid` (pixels) say how pages are rendered:
    scaled so that the longest edge is at most `longest_edge`, then padded white to multiples of `grid`.
    """

    pages_in_flight: int
    batch_pages: int
    batch_wait_s: float
    longest_edge: int = 1540
    grid: int = 1
    deterministic: bool = False  # reading the same page again gives the same text: no use in trying
    isolated: bool = False  # pages are read outside the daemon's process: its death is no page's fault


class Engine(Protocol):
    """Reads page images. A page's own trouble is a `PageFailure`; `EngineLost` says that none in flight was read."""

    @property
    def limits(self) -> Limits:
        """What it can take now; before `start` has returned, a guess. How pages are rendered never changes."""
        ...

    async def start(self) -> EngineInfo:
        """Load and self-test.

        Raises:
            EngineUnusable: it can't run here; says why and what to do.
        """
        ...

    async def read(self, page: PageImage, attempt: int = 1) -> PageText | PageFailure:
        """Read one page; called concurrently, up to `limits.pages_in_flight` times.

        `attempt` counts from 1; an engine that samples may try otherwise (seed, temperature) on a later one.
        A `PageFailure` is believed, and can cost the document this page: an engine that may be at fault itself, though
        it lives, makes sure before.

        Raises:
            EngineLost: the engine died or reads nothing more; every call in flight raises it. `start` makes a new one.
        """
        ...

    async def memory(self) -> MemorySample | None:
        """What only the engine can tell of its memory now, or None; the daemon sums the resident memory itself."""
        ...

    async def close(self) -> None:
        """Stop and free everything. Idempotent; safe after `EngineLost`."""
        ...


@runtime_checkable
class Relievable(Protocol):
    """An engine that can give memory back while it runs; asked before the daemon is recycled for fragmentation."""

    async def relieve(self) -> str:
        """Give cached memory back; says in a few words what was done."""
        ...


@runtime_checkable
class Several(Protocol):
    """An engine made of several, which outlives the loss of some: its `limits` shrink and grow with those that read."""

    @property
    def missing(self) -> str:
        """How many of how many read, and why the others do not, for a person; "" while all do."""
        ...
