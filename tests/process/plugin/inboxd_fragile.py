"""Engines that a page can kill, plugged in as anybody's engine would be: a page whose middle has a strong colour.

`fragile` reads in a process of its own. All pages that come together are lost when one of them is RED (it kills the
process), BLUE (the process never answers again) or GREEN (the process takes memory until it is killed, as by the
kernel's OOM killer). `fragile-inside` reads inside the daemon, and RED kills that. Each start of an engine adds a line
to the file `engine-starts` in the state folder.

FRAGILE_GATHER="8,4" lets the process of the first start wait until it has 8 pages, that of the second until it has 4:
then they come together however slow the machine is.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import select
import signal
import sys
import time
from pathlib import Path

from inboxd.config import Settings
from inboxd.engines.protocol import Limits
from inboxd.errors import EngineLost
from inboxd.model import EngineInfo, MemorySample, PageImage, PageText

RED, GREEN, BLUE = "255,0,0", "0,255,0", "0,0,255"
GATHER_S = 0.1
"""Seconds without a further page after which those that came are read together."""
BALLOON = 256 * 1024**2


def create(settings: Settings) -> FragileEngine:
    """The engine in a process of its own."""
    return FragileEngine(settings.state_dir / "engine-starts")


def create_inside(settings: Settings) -> InsideEngine:
    """The engine inside the daemon's process."""
    return InsideEngine(settings.state_dir / "engine-starts")


def middle(page: PageImage) -> str:
    return ",".join(map(str, page.pixels[page.height // 2, page.width // 2]))


class FragileEngine:
    """Has up to eight pages in flight, which share its fate."""

    limits = Limits(8, 8, batch_wait_s=0.5, longest_edge=200, isolated=True)

    def __init__(self, starts: Path) -> None:
        self._starts = starts
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._child: asyncio.subprocess.Process | None = None
        self._hearing: asyncio.Task[None] | None = None

    async def start(self) -> EngineInfo:
        with self._starts.open("a") as starts:
            starts.write("start\n")
        number = len(self._starts.read_text().splitlines())
        gather = [*os.environ.get("FRAGILE_GATHER", "").split(","), *["0"] * number][number - 1]
        self._child = await asyncio.create_subprocess_exec(
            *(sys.executable, __file__, gather or "0"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert self._child.stdout is not None
        await self._child.stdout.readline()  # how long Python takes to begin is no page's affair
        self._hearing = asyncio.create_task(self._hear(self._child))
        return EngineInfo("fragile", "none", "1.0")

    async def read(self, page: PageImage, attempt: int = 1) -> PageText:
        del attempt
        if self._child is None or self._child.stdin is None:
            raise EngineLost("the fragile engine is closed")
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._child.stdin.write(f"{number} {middle(page)}\n".encode())
        await self._answers[number]
        return PageText("read, and survived", confidence=1.0)

    async def memory(self) -> MemorySample | None:
        return None

    async def close(self) -> None:
        child, self._child = self._child, None
        if child is not None and self._hearing is not None:
            if child.returncode is None:
                child.kill()
            await self._hearing

    async def _hear(self, child: asyncio.subprocess.Process) -> None:
        assert child.stdout is not None
        while line := await child.stdout.readline():
            self._answers.pop(int(line)).set_result(None)
        code = await child.wait()
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            if not answer.done():
                answer.set_exception(EngineLost(f"the fragile engine died ({code})"))


class InsideEngine:
    """Reads in the daemon's own process."""

    limits = Limits(8, 8, batch_wait_s=0.5, longest_edge=200)

    def __init__(self, starts: Path) -> None:
        self._starts = starts

    async def start(self) -> EngineInfo:
        with self._starts.open("a") as starts:
            starts.write("start\n")
        return EngineInfo("fragile-inside", "none", "1.0")

    async def read(self, page: PageImage, attempt: int = 1) -> PageText:
        del attempt
        if middle(page) == RED:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(GATHER_S)
        return PageText("read, and survived", confidence=1.0)

    async def memory(self) -> MemorySample | None:
        return None

    async def close(self) -> None:
        return None


def serve(gather: int) -> None:
    """The process of `FragileEngine`: pages in by stdin, the numbers of those that were read out by stdout."""
    os.write(1, b"ready\n")
    buffer = b""
    while more := os.read(0, 65536):
        buffer += more
        while buffer.count(b"\n") < gather or select.select([0], [], [], GATHER_S)[0]:
            if not (more := os.read(0, 65536)):
                return
            buffer += more
        gather = 0
        pages = [line.split() for line in buffer.decode().splitlines()]
        buffer = b""
        colours = {colour for _, colour in pages}
        if GREEN in colours:
            taken = bytearray(b"\1") * BALLOON
            os.kill(os.getpid(), signal.SIGKILL if len(taken) else 0)
        if RED in colours:
            os.kill(os.getpid(), signal.SIGSEGV)
        if BLUE in colours:
            time.sleep(3600)
        os.write(1, b"".join(f"{number}\n".encode() for number, _ in pages))


if __name__ == "__main__":
    serve(int(sys.argv[1]))
