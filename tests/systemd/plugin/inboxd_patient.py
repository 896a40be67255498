"""An engine that takes its time and falls ill on demand, plugged in as anybody's engine would be.

It obeys files in the folder `orders` of the state folder: `hang` blocks the event loop in the next read, `stuck` lets
`close` never return, `crash` ends the process at the start, `defect` raises what nobody foresaw, `ill` makes its memory
look fragmented, and `delay` holds the seconds that a page takes. What it has read it writes to `reads`, a hash a line,
in the same folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from pathlib import Path

from inboxd.config import Settings
from inboxd.engines.protocol import Limits
from inboxd.errors import EngineLost
from inboxd.model import EngineInfo, MemorySample, PageImage, PageText

MIB = 1024**2


def create(settings: Settings) -> PatientEngine:
    """The factory that the entry point names."""
    return PatientEngine(settings.state_dir / "orders")


class PatientEngine:
    """Reads four pages at a time, without a look at them."""

    limits = Limits(pages_in_flight=4, batch_pages=2, batch_wait_s=0.01, longest_edge=200)

    def __init__(self, orders: Path) -> None:
        self._orders = orders
        self._open = False

    def _ordered(self, order: str) -> bool:
        return (self._orders / order).exists()

    async def start(self) -> EngineInfo:
        self._orders.mkdir(exist_ok=True)
        if self._ordered("crash"):
            os._exit(70)
        if self._ordered("defect"):
            raise KeyError("what nobody foresaw")
        self._open = True
        return EngineInfo("patient", "none", "1.0")

    async def read(self, page: PageImage, attempt: int = 1) -> PageText:
        del attempt
        if self._ordered("hang"):
            time.sleep(3600)
        delay = self._orders / "delay"
        await asyncio.sleep(float(delay.read_text()) if delay.exists() else 0.0)
        if not self._open:
            raise EngineLost("the patient engine is closed")
        with (self._orders / "reads").open("a") as reads:
            reads.write(hashlib.sha256(page.pixels.tobytes()).hexdigest() + "\n")
        return PageText("read with patience", confidence=1.0)

    async def memory(self) -> MemorySample:
        ill = self._ordered("ill")
        return MemorySample(
            0, torch_reserved=200 * MIB, torch_allocated=90 * MIB, torch_peak=(100 if ill else 195) * MIB
        )

    async def close(self) -> None:
        if self._ordered("stuck"):
            await asyncio.Event().wait()
        self._open = False
