"""The page desk: every claimed page is signed out here and gets its last word here, in the ledger and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

import structlog

from inboxd.core import lastword
from inboxd.core.lastword import NOBODY, ReadBy
from inboxd.core.retrying import GiveUp, RetryPolicy, after_failure
from inboxd.core.verdict import judge
from inboxd.ledger import arrivals, claims
from inboxd.ledger.opening import Ledger
from inboxd.model import (
    BatchId,
    PageClaim,
    PageFailure,
    PageId,
    PageText,
    Rendered,
    RunId,
)
from inboxd.rooms.bell import Bell

log = structlog.get_logger(__name__)


ALONE_EVERY_S = 5.0
"""Seconds between looks for a page that must be read alone; each such page empties the engine once."""


class Desk:
    """Claims pages for this life and accounts for each until it is final or back in the queue.

    `claimed` are the pages between the two. `bell` is rung after each; `on_complete` is called when the last page of a
    file became final.
    """

    def __init__(
        self,
        ledger: Ledger,
        run: RunId,
        policy: RetryPolicy,
        bell: Bell,
        on_complete: Callable[[], None],
    ) -> None:
        self._ledger = ledger
        self._run = run
        self._policy = policy
        self._bell = bell
        self._on_complete = on_complete
        self.claimed: dict[PageId, PageClaim] = {}
        self._alone = False
        self._look_for_alone = 0.0

    async def claim(self, limit: int) -> list[PageClaim]:
        """Up to `limit` pages, now ours.

        A page that two processes died with is read alone, so that the third death takes no other page with it:
        from time to time the desk lets everything out come back first, and gives out that page and no other. After
        the last death that the settings allow it is given up unread.
        """
        if self._alone:
            if self.claimed:
                return []
            self._alone = False
            taken = await self._ledger.write(claims.claim_pages, 1, self._run, alone=True, now=time.time())
            self._alone = bool(taken)  # nothing else until it is back
        else:
            taken = await self._ledger.write(claims.claim_pages, limit, self._run, now=time.time())
            if time.monotonic() >= self._look_for_alone:
                self._look_for_alone = time.monotonic() + ALONE_EVERY_S
                self._alone = await self._ledger.write(claims.waits_alone, now=time.time())
        self.claimed.update((claim.page, claim) for claim in taken)
        for claim in taken:
            if claim.deaths >= self._policy.deaths:
                reason = f"the engine or another process was lost {claim.deaths} times while working on it"
                await self.failed(claim, PageFailure(reason, permanent=True))
        return [claim for claim in taken if claim.page in self.claimed]

    async def admit(self, engine: str, batch: Sequence[Rendered], *, isolated: bool) -> BatchId:
        """Record a micro-batch before the engine sees it."""
        pages = [rendered.claim.page for rendered in batch]
        return await self._ledger.write(claims.admit, self._run, engine, pages, isolated=isolated, now=time.time())

    async def read(
        self, rendered: Rendered, text: PageText, batch: BatchId, by: ReadBy, *, queue_s: float, final: bool
    ) -> None:
        """A page was read: judge it, and either keep it or put it back for another try, unless it is `final`."""
        claim = rendered.claim
        last = final or claim.attempt >= self._policy.attempts
        verdict = judge(text, ink=rendered.image.ink, warnings=rendered.image.warnings, last_attempt=last)
        if verdict.state is None:
            await self.failed(claim, PageFailure(verdict.reason), by)
            return
        seconds = rendered.render_s + text.read_s
        page = lastword.read(claim.number, rendered.image, text, verdict, by, attempts=claim.attempt, seconds=seconds)
        complete = await self._ledger.write(
            claims.finish_page,
            claim.page,
            page,
            batch=batch,
            render_s=rendered.render_s,
            queue_s=queue_s,
            first_token_s=text.first_token_s,
            mean_logprob=text.mean_logprob,
            ink=rendered.image.ink,
            now=time.time(),
        )
        self._last_word(claim, complete)

    async def failed(self, claim: PageClaim, failure: PageFailure, by: ReadBy = NOBODY) -> None:
        """A page could not be rendered or read: try again later, or let the document come out without it."""
        deaths = claim.deaths + failure.died
        decision = after_failure(
            failure.reason,
            attempt=claim.attempt,
            deaths=deaths,
            permanent=failure.permanent,
            now=time.time(),
            policy=self._policy,
        )
        if isinstance(decision, GiveUp):
            log.warning("page failed", file=claim.file, page=claim.number, reason=decision.reason)
            page = lastword.unread(claim.number, decision.reason, by, attempts=claim.attempt)
            complete = await self._ledger.write(
                claims.finish_page, claim.page, page, died=failure.died, now=time.time()
            )
            self._last_word(claim, complete)
            return
        log.info("page will be tried again", file=claim.file, page=claim.number, reason=failure.reason)
        await self._ledger.write(
            claims.retry_page, claim.page, failure.reason, decision.at, died=failure.died, now=time.time()
        )
        self._back(claim)

    async def take_again(self, claim: PageClaim, reason: str) -> None:
        """A page's file must be taken up again from its original, for a `reason` that is not its fault: no attempt
        counts, and what was read stays."""
        if await self._ledger.write(arrivals.resettle, [claim.file], reason, now=time.time()):
            log.warning("taking the file again", file=claim.file, reason=reason)
        self._back(claim)

    async def release(self, taken: Iterable[PageClaim], *, died: str = "") -> None:
        """Put pages back unread: the attempt is not counted, unless an engine `died` with them in flight; says how."""
        back = [claim for claim in taken if claim.page in self.claimed]
        if not back:
            return
        pages = [claim.page for claim in back]
        await self._ledger.write(claims.release_pages, pages, died=bool(died), reason=died, now=time.time())
        for claim in back:
            self._back(claim)

    def _back(self, claim: PageClaim) -> None:
        self.claimed.pop(claim.page, None)
        self._bell.ring()

    def _last_word(self, claim: PageClaim, complete: bool) -> None:
        self._back(claim)
        if complete:
            self._on_complete()
