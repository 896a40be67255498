"""Work that is given up when the daemon stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


async def unless(stop: asyncio.Event, work: Coroutine[None, None, T]) -> T | None:
    """The result of `work`; None, once it has let itself be cancelled, when `stop` is set before."""
    doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((doing, stopping), return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        stopping.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait((doing,))
