"""What is known of an inbox while it is watched: how it fares, for people and for the ledger."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import structlog

from inboxd import config
from inboxd.core.naming import display
from inboxd.ledger import marks, runs
from inboxd.ledger.opening import Ledger
from inboxd.model import InboxId
from inboxd.rooms.tending import Report, Tender

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Watched:
    """An inbox of the configuration, and its row in the ledger."""

    inbox: InboxId
    settings: config.Inbox

    @property
    def path(self) -> bytes:
        """Absolute, and the same however it was written."""
        return os.path.normpath(os.fsencode(self.settings.path))


@dataclass(frozen=True, slots=True)
class InboxState:
    """`starting`, `watching`, `unavailable` or `no_space`, and why."""

    state: str = "starting"
    reason: str = ""


class Kept:
    """One inbox, as the loop sees it."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.shown = display(watched.path)
        self.tender: Tender | None = None
        self.scans = 0
        self.looks = 0  # scans, and tries that ended in trouble
        self.state = InboxState()
        self.memory = ""  # what it is known again by, as the ledger has it
        self._watching = ""
        self._silent = ""
        self._report: Report | None = None

    def hear(self, report: Report) -> None:
        """Its thread reports."""
        self._report = report
        self.scans += report.is_whole
        self.looks += report.is_whole or bool(report.trouble)

    def rescan(self) -> None:
        """Scan it as soon as possible."""
        if self.tender is not None:
            self.tender.rescan()
            self.looks += bool(self._silent)  # held by a dead share: there will be no more than that

    def listen(self, patience: float) -> None:
        """Notice a thread that has had no answer from the folder for `patience` seconds."""
        if self.tender is None or self.tender.silence() <= patience:
            self._silent = ""
        elif not self._silent:
            self._silent = f"no answer for {patience:g} s"
            self.looks += 1

    async def note(self, ledger: Ledger, no_space: str) -> None:
        """Log, and write to the ledger, what has changed. `no_space`: why intake can't take anything, if it can't."""
        report, inbox = self._report, self.watched.inbox
        if report is not None and report.watching and report.watching != self._watching:
            self._watching = report.watching
            log.info("watching", inbox=self.shown, how=report.watching)
            priority = self.watched.settings.priority
            await ledger.write(
                runs.inbox, self.watched.path, priority=priority, watching=report.watching, now=time.time()
            )
        if report is not None and report.memory != self.memory:
            self.memory = report.memory
            await ledger.write(marks.remember, inbox, report.memory, now=time.time())
        state = self._now(no_space)
        if state != self.state:
            if state.reason:
                log.warning(f"inbox is {state.state}", inbox=self.shown, reason=state.reason)
            elif self.state.reason:
                log.info("inbox can be read again", inbox=self.shown, was=self.state.reason)
            self.state = state
            await ledger.write(runs.inbox_state, inbox, state.state, state.reason, now=time.time())

    def _now(self, no_space: str) -> InboxState:
        if self._silent:
            return InboxState("unavailable", self._silent)
        if self._report is None:
            return InboxState()
        if self._report.trouble:
            return InboxState("unavailable", self._report.trouble)
        return InboxState("no_space", no_space) if no_space else InboxState("watching")
