"""The watchdog is fed while promises are kept, and not a moment longer."""

from __future__ import annotations

import asyncio
import time

import pytest

from inboxd.notify import Notifier
from inboxd.rooms.heartbeat import Heartbeat, Promises


class Recorder(Notifier):
    """Counts what would go to systemd; tells when it was fed once more."""

    def __init__(self, watchdog_s: float | None) -> None:
        super().__init__({})
        self.watchdog_s = watchdog_s
        self.fed = 0

    def alive(self) -> None:
        self.fed += 1


def test_a_promise_is_overdue_only_after_its_time_and_until_it_is_kept() -> None:
    promises = Promises()
    with promises.within("reading page 12", 60), promises.within("closing the engine", 10):
        now = time.monotonic()
        assert promises.overdue(now) == ()
        assert promises.overdue(now + 30) == ("closing the engine",)
        assert promises.overdue(now + 90) == ("closing the engine", "reading page 12")
    assert promises.overdue(now + 90) == ()


def test_a_promise_ends_with_its_block_whatever_ends_that() -> None:
    promises = Promises()
    with pytest.raises(ValueError), promises.within("an error", 1):
        raise ValueError
    assert promises.overdue(time.monotonic() + 10) == ()


async def _until(condition: object) -> None:
    async with asyncio.timeout(20):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.001)


def test_it_feeds_while_nothing_is_overdue_and_starves_while_something_is() -> None:
    async def exercise() -> None:
        promises, notifier, stop = Promises(), Recorder(0.02), asyncio.Event()
        beating = asyncio.create_task(Heartbeat(notifier, promises).run(stop))
        await _until(lambda: notifier.fed >= 2)
        with promises.within("hanging", -1):
            await asyncio.sleep(0)
            fed = notifier.fed
            await asyncio.sleep(0.1)  # many periods; nothing to wait for, since nothing may happen
            assert notifier.fed == fed
        await _until(lambda: notifier.fed > fed)
        stop.set()
        await beating

    asyncio.run(exercise())


def test_without_a_watchdog_there_is_nothing_to_feed() -> None:
    notifier = Recorder(None)
    asyncio.run(Heartbeat(notifier, Promises()).run(asyncio.Event()))
    assert notifier.fed == 0
