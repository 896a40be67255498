"""Several engines of one kind as one: each page goes to the engine with the most free places."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import fields, replace

from inboxd.engines.protocol import Engine, Limits, Relievable
from inboxd.errors import EngineLost
from inboxd.model import EngineInfo, MemorySample, PageFailure, PageImage, PageText


class Fleet:
    """An `Engine` that shares pages out; the loss of one engine is the loss of all, and `start` makes all anew."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = tuple(engines)
        self._busy = [0] * len(self._engines)
        self._info: EngineInfo | None = None

    @property
    def limits(self) -> Limits:
        """The windows added up; the rest is alike in all, being the model's."""
        each = [engine.limits for engine in self._engines]
        return replace(
            each[0],
            pages_in_flight=sum(limits.pages_in_flight for limits in each),
            batch_pages=sum(limits.batch_pages for limits in each),
        )

    async def start(self) -> EngineInfo:
        """Start the engines one after the other: each sizes itself by the memory that is free then.

        Raises:
            EngineUnusable: one of them can't run; the others are closed.
        """
        try:
            infos = [await engine.start() for engine in self._engines]
        except BaseException:
            await self.close()
            raise
        self._busy = [0] * len(self._engines)
        self._info = replace(
            infos[0],
            device=", ".join(info.device for info in infos),
            details={**infos[0].details, "engines": str(len(infos))},
        )
        return self._info

    async def read(self, page: PageImage, attempt: int = 1) -> PageText | PageFailure:
        """Read one page where there is most room.

        Raises:
            EngineLost: an engine died; pages of the others are lost with it.
        """
        place = max(range(len(self._engines)), key=self._free)
        self._busy[place] += 1
        try:
            return await self._engines[place].read(page, attempt)
        except EngineLost:
            await self.close()
            raise
        finally:
            self._busy[place] -= 1

    async def memory(self) -> MemorySample | None:
        """Bytes and counts added up, shares as of the fullest engine; None where no engine has any."""
        samples = [sample for engine in self._engines if (sample := await engine.memory()) is not None]
        return _together(samples) if samples else None

    async def relieve(self) -> str:
        """Ask every engine that can to give memory back."""
        able = [engine for engine in self._engines if isinstance(engine, Relievable)]
        return "; ".join([await engine.relieve() for engine in able])

    async def close(self) -> None:
        """Close all. Idempotent."""
        await asyncio.gather(*(engine.close() for engine in self._engines))

    def _free(self, place: int) -> int:
        return self._engines[place].limits.pages_in_flight - self._busy[place]


def _together(samples: Sequence[MemorySample]) -> MemorySample:
    columns = {field.name: [getattr(sample, field.name) for sample in samples] for field in fields(MemorySample)}
    known = {name: [value for value in values if value is not None] for name, values in columns.items()}
    fullest = known.pop("kv_used")
    sums = {name: sum(values) for name, values in known.items() if values}
    return MemorySample(**sums, kv_used=max(fullest, default=None))
