"""An engine that reads nothing: it shows what the pipeline alone does, and how fast."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from inboxd import __version__
from inboxd.core.verdict import BLANK_INK
from inboxd.engines.protocol import Engine, Limits
from inboxd.errors import EngineLost
from inboxd.model import EngineInfo, MemorySample, PageFailure, PageImage, PageText

if TYPE_CHECKING:
    from inboxd.config import Settings


def create(settings: Settings) -> Engine:
    """The engine without a delay; no setting changes it."""
    del settings
    return NullEngine()


class NullEngine:
    """An `Engine` whose text for a page is the page's size, `delay` seconds later."""

    def __init__(self, delay: float = 0.0, pages_in_flight: int = 64) -> None:
        self._delay = delay
        self._limits = Limits(
            pages_in_flight, min(16, pages_in_flight), batch_wait_s=0.005, deterministic=True, isolated=True
        )
        self._open = False

    @property
    def limits(self) -> Limits:
        return self._limits

    async def start(self) -> EngineInfo:
        self._open = True
        return EngineInfo("null", "none", __version__)

    async def read(self, page: PageImage, attempt: int = 1) -> PageText | PageFailure:
        """The page's size, or nothing for a page without ink, as a reader would have it.

        Raises:
            EngineLost: the engine is closed.
        """
        await asyncio.sleep(self._delay)
        if not self._open:
            raise EngineLost("the null engine is closed", "Start it again.")
        text = f"page {page.width}×{page.height}" if page.ink >= BLANK_INK else ""
        return PageText(text, confidence=1.0, read_s=self._delay)

    async def memory(self) -> MemorySample | None:
        """None: it holds nothing."""
        return None

    async def close(self) -> None:
        self._open = False
