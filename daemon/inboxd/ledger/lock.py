"""One daemon owns one ledger: an flock beside it that says who."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def own(path: Path) -> Iterator[None]:
    """Hold `<path>.lock` for as long as the context lasts; raises LedgerBusy."""
    raise NotImplementedError
    yield
