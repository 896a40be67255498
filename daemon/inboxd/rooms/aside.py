"""Blocking work beside the event loop, in a daemon thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def aside(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread and give its result, or raise what it raised.

    Unlike `asyncio.to_thread` there is no pool: a share that hangs keeps neither work on other folders waiting, nor
    the end of the process. Whoever calls bounds how many there are. A cancelled call leaves the work running.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(set_to: Callable[[Any], None], value: object) -> None:
        if not future.done():
            set_to(value)

    def run() -> None:
        try:
            done: tuple[Callable[[Any], None], object] = future.set_result, work(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - handed over, whatever it is
            done = future.set_exception, error
        try:
            loop.call_soon_threadsafe(settle, *done)
        except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
            return

    threading.Thread(target=run, name=f"aside-{getattr(work, '__name__', 'work')}", daemon=True).start()
    return await future
