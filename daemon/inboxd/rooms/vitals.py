"""Takes the health sample: the engine's own figures, memory of every process of ours, open files, pace."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections import deque
from collections.abc import Sized
from dataclasses import replace
from pathlib import Path
from statistics import median

import structlog

from inboxd.core.health import Sample
from inboxd.engines.protocol import Engine
from inboxd.model import MemorySample

KEEP = 1500
"""Samples that a life remembers: a day of minutes."""

ANSWER_S = 90.0
"""Seconds that the engine may take to tell of its memory: less than a checkup has, more than a fleet allows each of its
own. One that compiles or hangs tells nothing, and is the reading room's to judge."""

log = structlog.get_logger(__name__)


class Pulse:
    """What the reading tells of its pace; written on the loop, page by page."""

    def __init__(self) -> None:
        self.pages = 0  # read by the engine since this life began
        self.in_flight: Sized = ()  # what the engine has in hand
        self._paces: list[float] = []

    def page_read(self, read_s: float, tokens_out: int | None) -> None:
        """A page came back from the engine after `read_s` seconds in it."""
        self.pages += 1
        self._paces.append(read_s * 1000 / tokens_out if tokens_out else read_s)

    def take_pace(self) -> float | None:
        """Median pace since this was last asked, in seconds a page, or for 1,000 tokens where they are counted."""
        paces, self._paces = self._paces, []
        return median(paces) if paces else None


class Vitals:
    """The samples of this life, oldest first, as `core.health.verdict` wants them."""

    def __init__(self, pulse: Pulse, proc: Path = Path("/proc")) -> None:
        self._pulse = pulse
        self._proc = proc
        self.samples: deque[Sample] = deque(maxlen=KEEP)

    async def sample(self, engine: Engine | None) -> Sample:
        """Take one sample and remember it; `engine` None: it is not up."""
        inside = await _told(engine) if engine is not None else None
        rss = sum(_rss(self._proc, pid) for pid in family(os.getpid(), self._proc))
        taken = Sample(
            at=time.monotonic(),
            memory=replace(inside or MemorySample(), host_rss=rss),
            pages=self._pulse.pages,
            in_flight=len(self._pulse.in_flight),
            pace=self._pulse.take_pace(),
            open_files=self._open_files(),
        )
        self.samples.append(taken)
        return taken

    def _open_files(self) -> float:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return len(os.listdir(self._proc / "self/fd")) / soft if soft > 0 else 0.0


async def _told(engine: Engine) -> MemorySample | None:
    try:
        async with asyncio.timeout(ANSWER_S):
            return await engine.memory()
    except TimeoutError:
        log.warning("the engine does not tell of its memory", waited_s=ANSWER_S)
        return None


def family(pid: int, proc: Path = Path("/proc")) -> list[int]:
    """This process and all its descendants that are alive."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir(proc):
        if entry.isdigit() and (parent := _parent(proc, int(entry))):
            children.setdefault(parent, []).append(int(entry))
    found = [pid]
    for member in found:
        found.extend(children.get(member, ()))
    return found


def _parent(proc: Path, pid: int) -> int:
    try:
        stat = (proc / str(pid) / "stat").read_bytes()
    except OSError:  # it ended meanwhile
        return 0
    # The name stands in parentheses and may hold any character; what follows the last one is fixed.
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


def _rss(proc: Path, pid: int) -> int:
    try:
        pages = (proc / str(pid) / "statm").read_bytes().split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()
