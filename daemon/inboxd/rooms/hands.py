"""Threads that block in place of a coroutine, and that nobody has to wait for: a dead share may keep one for ever."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Hands:
    """A few daemon threads, started when needed. Those of the loop's own executor would hold up the process's end."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0

    async def do(self, action: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `action` on a thread, as soon as one is free; raises what it raises. Only to be called on one loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            self._busy -= 1
            if future.done():  # cancelled meanwhile
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]  # None only where T is

        def work() -> None:
            result, error = None, None
            try:
                result = action(*args, **kwargs)
            except BaseException as raised:  # noqa: BLE001 - handed to who asked for it
                error = raised
            try:
                loop.call_soon_threadsafe(settle, result, error)
            except RuntimeError:  # the loop has ended, and nobody waits
                return

        self._busy += 1
        if self._busy > len(self._threads) and len(self._threads) < self._count:
            name = f"{self._name} {len(self._threads) + 1}"
            self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
            self._threads[-1].start()
        self._work.put(work)
        return await future

    def close(self) -> None:
        """Let the threads end when they are done with what they have."""
        for _ in self._threads:
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
