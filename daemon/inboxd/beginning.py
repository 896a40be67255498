"""How a life begins: each inbox gets its row, and what an earlier life held is put back."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from inboxd import config, faults
from inboxd.ledger import arrivals, runs, strays
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.model import InboxId, RunId
from inboxd.rooms.inbox import Watched
from inboxd.rooms.spool import Spool

log = structlog.get_logger(__name__)


async def register(ledger: Ledger, configured: Sequence[config.Inbox]) -> dict[InboxId, Watched]:
    """A row for each configured inbox."""
    inboxes: dict[InboxId, Watched] = {}
    for settings in configured:
        path = os.fsencode(os.path.normpath(settings.path))
        number = await ledger.write(runs.inbox, path, priority=settings.priority, now=time.time())
        inboxes[number] = Watched(number, settings)
    return inboxes


async def take_up(
    ledger: Ledger, reader: Callable[[], Reader], spool_dir: Path, run_id: RunId, configured: Sequence[InboxId]
) -> Spool:
    """Put back what an earlier life held, leave what lies in inboxes that are not `configured` any more, and clear the
    spool of what nobody needs."""
    left_claimed = await ledger.write(strays.release_strays, run_id, now=time.time())
    faults.point("beginning.taken_up")
    if left_claimed.files or left_claimed.pages:
        log.info("taking up what an earlier life left", files=left_claimed.files, pages=left_claimed.pages)
    left = 0
    while more := await ledger.write(
        arrivals.unwatched, configured, "its inbox is not configured any more", now=time.time()
    ):
        left += more
    faults.point("beginning.let_go")
    if left:
        log.warning("some files are left alone: their inboxes are not configured any more", files=left)
    spool = Spool(spool_dir)
    with reader() as asked:
        needed = {sha256 for _, sha256 in asked.spooled()}
    await asyncio.to_thread(spool.sweep, needed)
    return spool
