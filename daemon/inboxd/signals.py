"""The signals that the daemon heeds."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def heeded(on_end: Callable[[str], None], on_reload: Callable[[], None]) -> Iterator[None]:
    """While the context lasts SIGTERM and SIGINT call `on_end` with their name, on the loop, and SIGHUP `on_reload`."""
    loop = asyncio.get_running_loop()
    endings = (signal.SIGTERM, signal.SIGINT)
    for number in endings:
        loop.add_signal_handler(number, on_end, number.name)
    loop.add_signal_handler(signal.SIGHUP, on_reload)
    try:
        yield
    finally:
        for number in (*endings, signal.SIGHUP):
            loop.remove_signal_handler(number)
