"""How many pages to take on now: micro-batches for the engine, open documents for the renderer."""

from __future__ import annotations

from dataclasses import dataclass

NEWEST_EVERY = 4
"""One file in this many is the newest instead of the oldest, so that a page dropped behind 100,000 others
comes out while its owner still stands there, and the queue still moves."""


@dataclass(frozen=True, slots=True)
class Window:
    """What the engine can hold, and how it likes to be fed."""

    pages_in_flight: int
    batch_pages: int
    batch_wait_s: float


def batch_size(waiting: int, oldest_wait_s: float, in_flight: int, window: Window) -> int:
    """How many of the `waiting` pages to send to the engine now; 0 means wait.

    A micro-batch goes out when it is full, when its oldest page has waited long enough, or when the engine
    would otherwise stand idle.
    """
    room = window.pages_in_flight - in_flight
    size = min(waiting, window.batch_pages, room)
    if size <= 0:
        return 0
    full = size == min(window.batch_pages, window.pages_in_flight)
    return size if full or in_flight == 0 or oldest_wait_s >= window.batch_wait_s else 0


def wait_s(waiting: int, oldest_wait_s: float, in_flight: int, window: Window) -> float | None:
    """Seconds until the pages that wait must go out though the batch is not full; None: only news can change it."""
    if waiting == 0 or in_flight >= window.pages_in_flight:
        return None
    return max(0.0, window.batch_wait_s - oldest_wait_s)


def pages_to_claim(claimed: int, window: Window, renderers: int) -> int:
    """How many more pages to claim while `claimed` are between claim and last word.

    Enough to fill the engine's window and to have one more micro-batch and one page a renderer on the way,
    and no more: a rendered page is about 5 MB.
    """
    return max(0, window.pages_in_flight + window.batch_pages + 2 * renderers - claimed)


def files_to_open(open_files: int, opening: int, pending_pages: int, claimable: int, renderers: int) -> int:
    """How many more documents to open, so that `claimable` pages are always at hand.

    A floor of documents stays open whatever their length, so that small ones overtake large ones. How long a document
    is shows when it is open: of the `open_files`, no more are `opening` than the `renderers` have use for.
    """
    floor, ceiling = 8, max(64, claimable)
    more = floor - open_files if open_files < floor else min(ceiling - open_files, claimable - pending_pages)
    return max(0, min(more, floor + renderers - opening))
