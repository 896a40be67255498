"""An engine that reads as many pages as a test allows: nothing is done sooner than the test wants, however slow it is.

The number stands in the file `pages-allowed` of the state folder; without the file there is no limit.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from inboxd.config import Settings
from inboxd.engines.null import NullEngine
from inboxd.model import PageFailure, PageImage, PageText


def create(settings: Settings) -> GatedEngine:
    """What the entry point names."""
    return GatedEngine(settings.state_dir / "pages-allowed")


class GatedEngine(NullEngine):
    """Holds the pages that come to it beyond that number of this life."""

    def __init__(self, allowed: Path) -> None:
        super().__init__(pages_in_flight=8)
        self._allowed = allowed
        self._numbers = itertools.count(1)

    async def read(self, page: PageImage, attempt: int = 1) -> PageText | PageFailure:
        number = next(self._numbers)
        while not self._may(number):
            await asyncio.sleep(0.01)
        return await super().read(page, attempt)

    def _may(self, number: int) -> bool:
        try:
            return number <= int(self._allowed.read_text())
        except FileNotFoundError:
            return True
