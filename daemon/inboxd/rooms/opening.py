"""The opening room: takes settled files in turn, opens them in a worker, and lays their pages before the desk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from inboxd import faults
from inboxd.core.admission import NEWEST_EVERY, files_to_open
from inboxd.core.naming import display
from inboxd.core.retrying import GiveUp, RetryPolicy, after_failure
from inboxd.ledger import arrivals, claims
from inboxd.ledger.opening import Ledger
from inboxd.model import FileClaim, Opened, RunId
from inboxd.rooms.bell import Bell
from inboxd.rooms.render.pool import RenderPool
from inboxd.rooms.spool import Spool

log = structlog.get_logger(__name__)

IDLE_S = 1.0
"""Seconds between looks at the ledger without a ring: retries that fell due, a resume from the command line."""


class OpeningRoom:
    """Keeps enough documents open that the rendering room never waits for pages."""

    def __init__(
        self,
        ledger: Ledger,
        run: RunId,
        spool: Spool,
        pool: RenderPool,
        policy: RetryPolicy,
        workers: int,
        wanted: Callable[[], int],
        on_opened: Callable[[], None],
        on_complete: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._run = run
        self._spool = spool
        self._pool = pool
        self._policy = policy
        self._workers = workers
        self._wanted = wanted
        self._on_opened = on_opened
        self._on_complete = on_complete
        self._taken = 0
        self.bell = Bell()

    async def run(self, stop: asyncio.Event) -> None:
        """Open files until `stop`; those being opened then stay claimed, for the end of the life to put back."""
        async with asyncio.TaskGroup() as group:
            opening: set[asyncio.Task[None]] = set()

            def end(task: asyncio.Task[None]) -> None:
                opening.discard(task)
                self._on_opened()
                self.bell.ring()

            while not stop.is_set():
                files = await self._claim(len(opening))
                for file in files:
                    task = group.create_task(self._open(file))
                    opening.add(task)
                    task.add_done_callback(end)
                if not files:
                    await self.bell.wait(IDLE_S)
            for task in opening:
                task.cancel()

    async def _claim(self, opening: int) -> list[FileClaim]:
        wanted = self._wanted()
        desk = await self._ledger.write(claims.desk_state, now=time.time())
        count = files_to_open(desk.open_files, opening, desk.pending_pages, wanted, self._workers)
        if desk.paused or not count:
            return []
        newest = (self._taken + count) // NEWEST_EVERY - self._taken // NEWEST_EVERY
        now = time.time()
        files = await self._ledger.write(claims.claim_files, newest, self._run, newest=True, now=now)
        files += await self._ledger.write(claims.claim_files, count - len(files), self._run, newest=False, now=now)
        self._taken += len(files)
        return files

    async def _open(self, file: FileClaim) -> None:
        faults.point("opening.claimed")
        if file.deaths >= self._policy.deaths:
            await self._quarantine(file, f"{file.deaths} processes died opening it")
            return
        if not await self._is_spooled(file):
            await self._take_again(file)
            return
        outcome = await self._pool.open(self._spool.path(file.sha256), file.kind)
        faults.point("opening.answered")
        if isinstance(outcome, Opened):
            complete = await self._ledger.write(claims.opened, file.file, outcome.pages, now=time.time())
            faults.point("opening.opened")
            if complete:  # every page was read in an earlier life: only the outputs are missing
                self._on_complete()
            return
        if not await self._is_spooled(file):  # it went meanwhile: never the file's fault
            await self._take_again(file)
            return
        decision = after_failure(
            outcome.reason,
            attempt=file.attempt,
            deaths=file.deaths + outcome.died,
            permanent=not outcome.died,
            now=time.time(),
            policy=self._policy,
        )
        if isinstance(decision, GiveUp):
            await self._quarantine(file, decision.reason, died=outcome.died)
            return
        log.warning("file will be opened again", file=file.file, path=display(file.path), reason=outcome.reason)
        await self._ledger.write(
            claims.retry_file, file.file, outcome.reason, decision.at, died=outcome.died, now=time.time()
        )

    async def _is_spooled(self, file: FileClaim) -> bool:
        return await asyncio.to_thread(self._spool.holds, file.sha256, file.size)

    async def _take_again(self, file: FileClaim) -> None:
        log.warning("spool copy lost, taking the file again", file=file.file, path=display(file.path))
        await self._ledger.write(arrivals.resettle, [file.file], "its spool copy was lost", now=time.time())

    async def _quarantine(self, file: FileClaim, reason: str, *, died: bool = False) -> None:
        log.warning("file quarantined", file=file.file, path=display(file.path), reason=reason)
        await self._ledger.write(arrivals.quarantine, file.file, reason, died=died, now=time.time())
        faults.point("opening.quarantined")
