"""When trouble may pass: try again later, or give up with a reason that a person can read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again at `at` (UTC seconds)."""

    at: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Trying again will not help; `reason` is for a person."""

    reason: str


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Delays double from `first_delay_s` up to `max_delay_s`."""

    attempts: int
    first_delay_s: float
    max_delay_s: float
    deaths: int


def after_failure(
    reason: str, *, attempt: int, deaths: int, permanent: bool, now: float, policy: RetryPolicy
) -> Retry | GiveUp:
    """What to do after failed attempt number `attempt` (from 1), with `deaths` processes lost to it so far."""
    if permanent:
        return GiveUp(reason)
    if deaths >= policy.deaths:
        return GiveUp(f"{reason} ({deaths} processes died with it)")
    if attempt >= max(policy.attempts, 1) and deaths == 0:
        return GiveUp(f"{reason} (tried {attempt} times)" if attempt > 1 else reason)
    if attempt >= policy.attempts + policy.deaths:
        return GiveUp(f"{reason} (tried {attempt} times)")
    return Retry(now + delay(attempt, policy))


def delay(attempt: int, policy: RetryPolicy) -> float:
    """Seconds to wait after failed attempt number `attempt` (from 1)."""
    # Past 2**30 the doubling has long met any sane ceiling; the bound keeps the power finite.
    return float(min(policy.max_delay_s, policy.first_delay_s * 2 ** min(attempt - 1, 30)))
