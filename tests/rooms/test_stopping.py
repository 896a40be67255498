"""Work that ends with the daemon."""

from __future__ import annotations

import asyncio

import pytest

from inboxd.rooms.stopping import unless


def test_work_that_ends_first_gives_its_result_or_its_error() -> None:
    async def seven() -> int:
        return 7

    async def wrong() -> int:
        raise ValueError("wrong")

    assert asyncio.run(unless(asyncio.Event(), seven())) == 7
    with pytest.raises(ValueError, match="wrong"):
        asyncio.run(unless(asyncio.Event(), wrong()))


def test_work_is_cancelled_at_the_stop_and_let_tidy_up() -> None:
    async def live() -> tuple[int | None, bool]:
        stop, began, tidy = asyncio.Event(), asyncio.Event(), False

        async def long() -> int:
            nonlocal tidy
            began.set()
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0)
                tidy = True
            return 1

        ending = asyncio.create_task(unless(stop, long()))
        await began.wait()
        stop.set()
        return await ending, tidy

    assert asyncio.run(live()) == (None, True)
