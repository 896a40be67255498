"""A bell that one room rings for another: there may be something to do."""

from __future__ import annotations

import asyncio
import contextlib


class Bell:
    """Rings are hints and coalesce; who waits looks for itself what there is to do."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def wait(self, timeout: float | None) -> None:
        """Return when rung since the last wait, or after `timeout` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._rung.wait()
        self._rung.clear()
