"""The rendering room with a real renderer: what is no page's fault costs it no attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.rooms.test_opening import PAGES, Stage

from inboxd.core.admission import Window
from inboxd.core.lifecycle import FileState
from inboxd.ledger import claims
from inboxd.ledger.opening import Ledger
from inboxd.model import PageState, Rendered
from inboxd.rooms.bell import Bell
from inboxd.rooms.rendering import RenderingRoom

WINDOW = Window(pages_in_flight=4, batch_pages=4, batch_wait_s=0.0)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        yield Stage(ledger, tmp_path)


def test_a_copy_that_is_lost_while_pages_are_read_is_not_their_fault(stage: Stage) -> None:
    clerk = stage.clerk
    lost, kept = stage.drop(b"lost.pdf"), stage.drop(b"kept.pdf")
    for claim in clerk.claim(2):
        clerk.do(claims.opened, claim.file, PAGES)
    (page,) = [page for page in clerk.claim_pages(1) if page.file == lost]
    clerk.finish(page)  # read while the copy was there
    stage.copy_of(lost).unlink()
    offered: list[Rendered] = []
    desk = stage.desk()
    room = RenderingRoom(stage.spool, stage.pool, desk, lambda: WINDOW, offered.append, 1, Bell(), {})

    async def life() -> None:
        await stage.pool.start()
        stop = asyncio.Event()
        running = asyncio.create_task(room.run(stop))
        try:
            await stage.until(
                lambda: len(offered) == PAGES and len(desk.claimed) == PAGES, "the other document's pages, and no more"
            )
        finally:
            stop.set()
            room.bell.ring()
            await running
            await stage.pool.close()

    asyncio.run(life())
    assert [rendered.claim.file for rendered in offered] == [kept] * PAGES
    assert (clerk.state(lost), clerk.state(kept)) == (FileState.SETTLING, FileState.READING)
    assert clerk.history(lost)[-1] == "resettled"
    assert clerk.sql("SELECT state, attempts, deaths FROM pages WHERE file = ? ORDER BY number", lost) == [
        (PageState.OK, 1, 0),
        (PageState.PENDING, 0, 0),
    ]
