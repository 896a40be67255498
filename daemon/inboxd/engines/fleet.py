"""Several engines of one kind as one: each page goes to the engine with the most free places.

An engine that is lost takes only its own pages along. It is built again in the background while the others read on;
the fleet is lost when the last of them is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import structlog

from inboxd.core.retrying import RetryPolicy, delay
from inboxd.engines.protocol import Engine, Limits, Relievable
from inboxd.errors import EngineLost, EngineUnusable, InboxdError
from inboxd.model import EngineInfo, MemorySample, PageFailure, PageImage, PageText

log = structlog.get_logger(__name__)

AGAIN = RetryPolicy(attempts=5, first_delay_s=1.0, max_delay_s=600.0, deaths=5)
"""An engine is built again after 1, 2, 4 ... seconds, at most ten minutes, and as often as it takes: what holds its
GPU may end. After five deaths in a row without a page read in between it stays away: each cost its pages a death."""

START_S = 1500.0
"""Seconds that the start of one engine may take: fewer than the reading room allows all of them, or one that hangs at
its start would keep the others from ever reading."""

SAMPLE_S = 60.0
"""Seconds that one engine may take to tell of its memory: half of what the checkup allows all of them."""

STARTING = "it is starting"


@dataclass(slots=True)
class _Member:
    """One engine: `away` says why it does not read now, "" that it does; `life` counts its starts."""

    name: str
    engine: Engine
    away: str = STARTING
    life: int = 0
    busy: int = 0
    deaths: int = 0  # in a row, without a page read in between
    info: EngineInfo | None = None
    rebuild: asyncio.Task[None] | None = None

    @property
    def free(self) -> int:
        return self.engine.limits.pages_in_flight - self.busy


class Fleet:
    """An `Engine` that shares pages out among those that are there.

    `engines` by the name that a person knows them by ("GPU 1"); `absent` says of engines that could not even be
    planned why. A page in an engine for `page_timeout` seconds means that this engine hangs, and is lost.
    """

    def __init__(self, engines: Mapping[str, Engine], page_timeout: float, absent: Sequence[str] = ()) -> None:
        self._members = [_Member(name, engine) for name, engine in engines.items()]
        self._page_timeout = page_timeout
        self._absent = tuple(absent)

    @property
    def limits(self) -> Limits:
        """The windows of the engines that are there, added up; the rest is alike in all, being the model's."""
        each = [member.engine.limits for member in self._present or self._members]
        return replace(
            each[0],
            pages_in_flight=sum(limits.pages_in_flight for limits in each),
            batch_pages=sum(limits.batch_pages for limits in each),
        )

    @property
    def missing(self) -> str:
        """How many of how many engines read, and why the others do not; "" while all do."""
        why = [f"{member.name}: {member.away}" for member in self._members if member.away]
        why += self._absent
        total = len(self._members) + len(self._absent)
        return f"{total - len(why)} of {total} engines: {'; '.join(why)}" if why else ""

    async def start(self) -> EngineInfo:
        """Start the engines, all at once: each has a GPU to itself. Those that can't are tried again in the background.

        Raises:
            EngineUnusable: none of them can run.
        """
        if not self._present:
            await self.close()
            try:
                async with asyncio.TaskGroup() as group:
                    starts = [group.create_task(self._begin(member)) for member in self._members]
            except BaseException:
                await self.close()
                raise
            refusals = [refusal for start in starts if (refusal := start.result()) is not None]
            if not self._present:
                raise refusals[0]
            for member in self._members:
                if member.away:
                    self._build_again(member)
        infos = [member.info for member in self._present if member.info is not None]
        return replace(
            infos[0],
            device=", ".join(info.device for info in infos),
            details={**infos[0].details, "engines": str(len(infos))},
        )

    async def read(self, page: PageImage, attempt: int = 1) -> PageText | PageFailure:
        """Read one page where there is most room. A page that was in an engine when it died is a failure that `died`.

        Raises:
            EngineLost: the last engine died, or none was left.
        """
        if not self._present:
            raise EngineLost(self.missing, "Start it again.")
        member = max(self._present, key=lambda present: present.free)
        life = member.life
        member.busy += 1
        try:
            async with asyncio.timeout(self._page_timeout):
                answer = await member.engine.read(page, attempt)
        except EngineLost as lost:
            self._lose(member, life, lost.what)
            reason = lost.what
        except TimeoutError:
            reason = f"it did not answer for {self._page_timeout:.0f} s on one page"
            self._lose(member, life, reason)
        else:
            member.deaths = 0
            return answer
        finally:
            member.busy -= 1
        if not self._present:
            raise EngineLost(self.missing, "Start it again.")
        return PageFailure(f"the engine on {member.name} was lost: {reason}", died=True)

    async def memory(self) -> MemorySample | None:
        """Bytes and counts added up, shares as of the fullest engine; None where no engine has any."""
        told = await asyncio.gather(*(_sample(member.engine) for member in self._present))
        samples = [sample for sample in told if sample is not None]
        return _together(samples) if samples else None

    async def relieve(self) -> str:
        """Ask every engine that can to give memory back."""
        able = [member.engine for member in self._present if isinstance(member.engine, Relievable)]
        return "; ".join([await engine.relieve() for engine in able])

    async def close(self) -> None:
        """Close all. Idempotent."""
        builds = [member.rebuild for member in self._members if member.rebuild is not None]
        for member in self._members:
            member.away, member.rebuild, member.deaths = STARTING, None, 0
        for build in builds:
            build.cancel()
        await asyncio.gather(*builds, return_exceptions=True)
        await asyncio.gather(*(member.engine.close() for member in self._members))

    @property
    def _present(self) -> list[_Member]:
        return [member for member in self._members if not member.away]

    async def _begin(self, member: _Member) -> EngineUnusable | None:
        """Start one engine; returns why it can't run."""
        try:
            member.info = await _started(member.engine)
        except EngineUnusable as error:
            member.away = error.what
            return error
        member.away = ""
        member.life += 1
        return None

    def _lose(self, member: _Member, life: int, why: str) -> None:
        if member.away or member.life != life:
            return  # another page of it has said so already
        log.error("one engine lost", engine=member.name, reason=why, pages_in_flight=member.busy)
        member.away = why
        member.deaths += 1
        if self._present:  # else whoever started the fleet starts it again
            self._build_again(member)

    def _build_again(self, member: _Member) -> None:
        member.rebuild = asyncio.create_task(self._rebuild(member), name=f"rebuild of {member.name}")

    async def _rebuild(self, member: _Member) -> None:
        """Start a lost engine again, after pauses that double."""
        await member.engine.close()
        if member.deaths >= AGAIN.deaths:
            member.away = f"it died {member.deaths} times in a row, and is left alone: {member.away}"
            log.error("one engine is given up", engine=member.name, reason=member.away)
            return
        tries = max(member.deaths, 1)
        while member.away:
            pause = delay(tries, AGAIN)
            log.warning("one engine is started again", engine=member.name, in_s=pause, reason=member.away)
            await asyncio.sleep(pause)
            try:
                await self._begin(member)
            except Exception as error:  # noqa: BLE001 - whatever it was, the others read on, and the status names it
                member.away = error.what if isinstance(error, InboxdError) else repr(error)
                await member.engine.close()
            tries += 1
        log.info("one engine is back", engine=member.name, engines=len(self._present))


async def _started(engine: Engine) -> EngineInfo:
    try:
        async with asyncio.timeout(START_S):
            return await engine.start()
    except TimeoutError as error:
        await engine.close()
        raise EngineUnusable(f"it did not start within {START_S:.0f} s", "See what its log and dmesg say.") from error


async def _sample(engine: Engine) -> MemorySample | None:
    """What the engine tells of its memory; None from one that hangs, which its pages will show."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SAMPLE_S):
            return await engine.memory()
    return None


def _together(samples: Sequence[MemorySample]) -> MemorySample:
    columns = {field.name: [getattr(sample, field.name) for sample in samples] for field in fields(MemorySample)}
    known = {name: [value for value in values if value is not None] for name, values in columns.items()}
    fullest = known.pop("kv_used")
    sums = {name: sum(values) for name, values in known.items() if values}
    return MemorySample(**sums, kv_used=max(fullest, default=None))
