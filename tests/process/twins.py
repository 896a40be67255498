"""Two engines in two processes behind one seam, as a package of somebody else's would add them: `name = "twins"`.

Each process holds its pages until there is a file `go`, notes in `NAME.has` what it was given, does not start while
there is a `NAME.broken`, and dies of a square page.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from inboxd.engines.fleet import Fleet
from inboxd.engines.protocol import Engine, Limits
from inboxd.errors import EngineLost, EngineUnusable
from inboxd.model import EngineInfo, MemorySample, PageFailure, PageImage, PageText

if TYPE_CHECKING:
    from inboxd.config import Settings

NAMES = ("left", "right")
PLACES = 4
FOLDER = "TWINS"
"""Variable that names the folder of those files."""

PROCESS = """
import os, sys, threading, time
from pathlib import Path

def answer(line):
    while not (folder / "go").exists():
        time.sleep(0.01)
    print(line, end="", flush=True)

folder, name = Path(sys.argv[1]), sys.argv[2]
if (folder / f"{name}.broken").exists():
    sys.exit(1)
(folder / f"{name}.pid").write_text(str(os.getpid()))
print("ready", flush=True)
for line in sys.stdin:
    with (folder / f"{name}.has").open("a") as file:
        file.write(line)
    number, width, height = line.split()
    if width == height:
        os.abort()
    threading.Thread(target=answer, args=(line,), daemon=True).start()
"""


def create(settings: Settings) -> Engine:
    """What the entry point names."""
    return Fleet({name: Twin(name, Path(os.environ[FOLDER])) for name in NAMES}, settings.engine.page_timeout)


class Twin:
    """An `Engine` round one such process."""

    limits = Limits(PLACES, batch_pages=1, batch_wait_s=0.001, isolated=True)

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._listener: asyncio.Task[None] | None = None

    async def start(self) -> EngineInfo:
        await self.close()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROCESS, str(self._folder), self._name),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        if not await self._process.stdout.readline():
            raise EngineUnusable(f"{self._name} fell off the bus")
        self._listener = asyncio.create_task(self._listen(self._process.stdout))
        return EngineInfo("twins", "none", "1", device=self._name)

    async def read(self, page: PageImage, attempt: int = 1) -> PageText | PageFailure:
        if self._process is None or self._process.stdin is None or self._process.returncode is not None:
            raise EngineLost(f"{self._name} is not running")
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(f"{number} {page.width} {page.height}\n".encode())
        try:
            await self._waiting[number]
        finally:
            del self._waiting[number]
        return PageText(f"read by {self._name}", confidence=1.0)

    async def memory(self) -> MemorySample | None:
        return None

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
        if process is not None:
            await process.wait()
        if self._listener is not None:
            await self._listener

    async def _listen(self, stdout: asyncio.StreamReader) -> None:
        while line := await stdout.readline():
            self._waiting[int(line.split()[0])].set_result(None)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(EngineLost(f"the process of {self._name} died"))
