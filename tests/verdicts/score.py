"""How often the verdicts on the labelled set are right: precision and recall of each, and what is missed."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass

from tests.verdicts.cases import Case

from inboxd.model import PageState

STATES = (PageState.OK, PageState.BLANK, PageState.SUSPECT)
PARTS = ("tuned", "held")


@dataclass(frozen=True, slots=True)
class Score:
    """Of one verdict: how many pages deserve it, how many got it, and how many both."""

    deserved: int
    given: int
    right: int

    @property
    def precision(self) -> float:
        """Of those that got it, the share that deserved it."""
        return self.right / self.given

    @property
    def recall(self) -> float:
        """Of those that deserve it, the share that got it."""
        return self.right / self.deserved


@functools.cache
def scores(cases: tuple[Case, ...]) -> dict[tuple[str, PageState], Score]:
    """The score of each verdict on each part."""
    pairs = Counter((case.part, case.right, case.verdict.state) for case in cases)
    return {
        (part, state): Score(
            deserved=sum(n for (of, right, _), n in pairs.items() if (of, right) == (part, state)),
            given=sum(n for (of, _, given), n in pairs.items() if (of, given) == (part, state)),
            right=pairs[part, state, state],
        )
        for part in PARTS
        for state in STATES
    }


@functools.cache
def by_kind(cases: tuple[Case, ...]) -> dict[str, dict[str, tuple[int, int]]]:
    """Kind → part → how many cases, and how many verdicts were right."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for case in cases:
        parts = found.setdefault(case.kind, dict.fromkeys(PARTS, (0, 0)))
        count, right = parts[case.part]
        parts[case.part] = count + 1, right + (case.verdict.state is case.right)
    return found
