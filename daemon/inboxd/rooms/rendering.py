"""The rendering room: claims pages a window ahead of the engine and turns them into images."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from inboxd import faults
from inboxd.core.admission import Window, pages_to_claim
from inboxd.model import InboxId, PageClaim, PageFailure, Rendered
from inboxd.rooms.bell import Bell
from inboxd.rooms.desk import Desk
from inboxd.rooms.render.pool import RenderPool
from inboxd.rooms.spool import Spool

IDLE_S = 1.0
"""Seconds between looks at the ledger without a ring: a page's retry fell due, a resume from the command line."""


class RenderingRoom:
    """Keeps just enough rendered pages on the way to fill the engine's window."""

    def __init__(
        self,
        spool: Spool,
        pool: RenderPool,
        desk: Desk,
        window: Callable[[], Window | None],
        offer: Callable[[Rendered], None],
        workers: int,
        bell: Bell,
        languages: Mapping[InboxId, str],
    ) -> None:
        self._spool = spool
        self._pool = pool
        self._desk = desk
        self._window = window
        self._offer = offer
        self._workers = workers
        self.bell = bell
        self._languages = languages

    def wanted(self) -> int:
        """Pages that could be claimed now, for the opening room to have at hand; 0 while the engine isn't ready."""
        window = self._window()
        return pages_to_claim(len(self._desk.claimed), window, self._workers) if window else 0

    async def run(self, stop: asyncio.Event) -> None:
        """Claim and render until `stop`; pages that wait for a renderer then stay claimed, for the desk to put back."""
        async with asyncio.TaskGroup() as group:
            renders: set[asyncio.Task[None]] = set()
            while not stop.is_set():
                wanted = self.wanted()
                claims = await self._desk.claim(wanted) if wanted else []
                for claim in claims:
                    render = group.create_task(self._render(claim))
                    renders.add(render)
                    render.add_done_callback(renders.discard)
                if not claims:
                    await self.bell.wait(IDLE_S)
            for render in renders:
                render.cancel()

    async def _render(self, claim: PageClaim) -> None:
        faults.point("rendering.claimed")
        began = time.monotonic()
        outcome = await self._pool.render(self._spool.path(claim.sha256), claim.kind, claim.number)
        if isinstance(outcome, PageFailure):
            if await asyncio.to_thread(self._spool.holds, claim.sha256, claim.size):
                await self._desk.failed(claim, outcome)
            else:  # never the page's fault
                await self._desk.take_again(claim, "its spool copy was lost")
            return
        now = time.monotonic()
        if (language := self._languages.get(claim.inbox)) is not None:
            outcome = replace(outcome, language=language)
        self._offer(Rendered(claim, outcome, render_s=now - began, at=now))
