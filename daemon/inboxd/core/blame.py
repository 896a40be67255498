"""Whose fault is it when an engine dies: its own, or that of a page? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inboxd.model import FileId, PageClaim

ALONE_AFTER = 2
"""Deaths after which the ledger gives a page out alone: see `claims.claim_pages`."""
TOO_MANY = 5
"""Deaths in a row that no page explains, or files in a row that are poison, after which the engine is to blame."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class Streak:
    """What has happened since a page was last read."""

    unexplained: int = 0
    poison: frozenset[FileId] = frozenset()  # files of which a page killed the engine when it was read alone

    def died(self, in_flight: Sequence[PageClaim]) -> Streak:
        """The engine died with these pages. One that was alone explains the deaths before in which it took part."""
        unexplained = self.unexplained + 1
        if len(in_flight) == 1 and in_flight[0].deaths >= ALONE_AFTER:
            page = in_flight[0]
            return Streak(max(0, unexplained - page.deaths - 1), self.poison | {page.file})
        return Streak(unexplained, self.poison)

    @property
    def is_the_engines(self) -> bool:
        """Whether it is no use to start the engine again: many files can't all be poison, with no good page between."""
        return self.unexplained > TOO_MANY or len(self.poison) > TOO_MANY

    @property
    def pause_s(self) -> float:
        """Seconds until the engine is started again; twice as many with each death that nothing explains."""
        return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** max(0, self.unexplained - 1)))
