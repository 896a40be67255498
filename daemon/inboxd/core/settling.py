"""When is a file complete enough to take? Decided from what each look at it found; times are monotonic seconds."""

from __future__ import annotations

from dataclasses import dataclass

from inboxd.model import Signature

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 10.0
LONGEST_SETTLE = 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How patient an inbox is: seconds without a change before a file is taken, and before it is given up."""

    settle: float
    max_settle: float

    def slower(self) -> Pace:
        """The pace after a file changed that was thought complete: its writer pauses longer than we waited."""
        return Pace(min(max(2 * self.settle, FIRST_PAUSE), max(self.settle, LONGEST_SETTLE)), self.max_settle)


@dataclass(frozen=True, slots=True)
class Quiet:
    """A file's signature, since when it has been that, and the last pause between two looks that found it lacking."""

    signature: Signature
    since: float
    pause: float = 0.0

    def after(self, signature: Signature, now: float) -> Quiet:
        """What is known after a look that found `signature`. Any difference counts: copies carry old times along."""
        return self if signature == self.signature else Quiet(signature, now)

    def is_settled(self, pace: Pace, now: float) -> bool:
        """Whether the file has been left alone long enough for a look at its content."""
        return now >= self.since + pace.settle

    def is_stuck(self, pace: Pace, now: float) -> bool:
        """Whether it has been left alone so long that what it lacks will not come by itself."""
        return now >= self.since + max(pace.settle, pace.max_settle)


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again at `until`; `reason` says what it waits for, empty while it just settles."""

    until: float
    reason: str
    quiet: Quiet


@dataclass(frozen=True, slots=True)
class Take:
    """It is complete, as far as anyone can tell."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It will not be complete by itself; a later change starts it anew."""

    reason: str


def decide(quiet: Quiet, lacks: str, pace: Pace, now: float) -> Wait | Take | GiveUp:
    """What to do with a file after a look at it.

    `lacks` says what hinders taking it, empty when nothing does. The content needs no look before the file
    `is_settled`: until then the answer is to wait.
    """
    if not quiet.is_settled(pace, now):
        return Wait(quiet.since + pace.settle, lacks, quiet)
    if not lacks:
        return Take()
    if quiet.is_stuck(pace, now):
        return GiveUp(lacks)
    pause = min(max(2 * quiet.pause, FIRST_PAUSE), LONGEST_PAUSE)
    until = min(now + pause, quiet.since + max(pace.settle, pace.max_settle))
    return Wait(until, lacks, Quiet(quiet.signature, quiet.since, pause))
