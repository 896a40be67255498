from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from inboxd.core.settling import GiveUp, Pace, Quiet, Take, Wait, decide
from inboxd.model import Signature

PACE = Pace(settle=3.0, max_settle=60.0)


def sig(version: int) -> Signature:
    return Signature(100 + version, version, version, 7)


def life(changes: list[float], whole_at: float, pace: Pace) -> tuple[Take | GiveUp, float, list[float]]:
    """Look at a file when told to: it changes at `changes` and lacks something before `whole_at`."""

    def version(now: float) -> int:
        return sum(at <= now for at in changes)

    quiet, now = Quiet(sig(version(0.0)), 0.0), pace.settle
    looks = [0.0]
    while True:
        looks.append(now)
        quiet = quiet.after(sig(version(now)), now)
        outcome = decide(quiet, "" if now >= whole_at else "it has no end", pace, now)
        if not isinstance(outcome, Wait):
            return outcome, now, looks
        assert outcome.until > now
        quiet, now = outcome.quiet, outcome.until


paces = st.builds(Pace, st.floats(0.1, 10), st.floats(0.1, 120))
times = st.lists(st.floats(0, 300), max_size=12).map(sorted)


@given(changes=times, whole_at=st.floats(0, 300), pace=paces)
def test_a_file_is_taken_only_when_it_is_whole_and_nobody_wrote_for_the_settle_time(
    changes: list[float], whole_at: float, pace: Pace
) -> None:
    outcome, at, looks = life(changes, whole_at, pace)
    before = [look for look in looks if look < at]
    # All that can be known is what looks saw: none within the settle time before saw another signature.
    seen = {sum(change <= look for change in changes) for look in [*before, at] if look > at - pace.settle}
    assert len(seen) == 1
    if isinstance(outcome, Take):
        assert at >= whole_at
    else:
        assert at < whole_at


@given(changes=times, whole_at=st.floats(0, 300), pace=paces)
def test_a_file_is_given_up_only_after_the_longest_wait_without_a_change(
    changes: list[float], whole_at: float, pace: Pace
) -> None:
    outcome, at, _ = life(changes, whole_at, pace)
    if isinstance(outcome, GiveUp):
        last = max((change for change in changes if change <= at), default=0.0)
        assert at - last >= max(pace.settle, pace.max_settle) - 1e-6
        assert outcome.reason == "it has no end"


@given(changes=times, pace=paces)
def test_a_whole_file_is_taken_soon_after_its_last_change(changes: list[float], pace: Pace) -> None:
    outcome, at, _ = life(changes, 0.0, pace)
    last = max((change for change in changes if change <= at), default=0.0)
    assert isinstance(outcome, Take)
    assert at <= last + 2 * pace.settle + 1e-6


@given(whole_at=st.floats(0, 55))
def test_looks_at_a_file_that_lacks_something_grow_rarer_up_to_ten_seconds(whole_at: float) -> None:
    outcome, at, looks = life([], whole_at, PACE)
    gaps = [later - earlier for earlier, later in pairwise(looks[1:])]
    assert isinstance(outcome, Take)
    assert gaps == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0][: len(gaps)]
    assert at - whole_at < 10.0 or at == PACE.settle


def test_a_change_after_long_waiting_begins_the_wait_anew() -> None:
    outcome, at, _ = life([58.0], 1000.0, PACE)
    assert isinstance(outcome, GiveUp)
    assert at >= 118.0


def test_any_difference_is_a_change_even_to_an_older_time() -> None:
    quiet = Quiet(Signature(10, 500, 500, 1), 0.0)
    for other in (Signature(10, 400, 500, 1), Signature(10, 500, 499, 1), Signature(9, 500, 500, 1)):
        assert quiet.after(other, 5.0) == Quiet(other, 5.0)
    assert quiet.after(Signature(10, 500, 500, 1), 5.0) is quiet


def test_waiting_says_why() -> None:
    quiet = Quiet(sig(0), 0.0)
    assert decide(quiet, "it is empty", PACE, 3.0) == Wait(4.0, "it is empty", Quiet(sig(0), 0.0, 1.0))


def test_a_writer_that_pauses_longer_than_we_waited_is_given_twice_the_time_up_to_a_minute() -> None:
    settles = []
    pace = PACE
    for _ in range(6):
        pace = pace.slower()
        settles.append(pace.settle)
    assert settles == [6.0, 12.0, 24.0, 48.0, 60.0, 60.0]
    assert Pace(90.0, 60.0).slower().settle == 90.0
    assert Pace(0.1, 60.0).slower().settle == 1.0
