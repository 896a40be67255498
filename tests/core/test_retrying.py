from hypothesis import given
from hypothesis import strategies as st

from inboxd.core.retrying import GiveUp, Retry, RetryPolicy, after_failure, delay

policies = st.builds(
    RetryPolicy,
    attempts=st.integers(1, 10),
    first_delay_s=st.floats(0, 10),
    max_delay_s=st.floats(0, 600),
    deaths=st.integers(1, 5),
)
POLICY = RetryPolicy(attempts=3, first_delay_s=2.0, max_delay_s=60.0, deaths=3)


@given(policies, st.integers(0, 5))
def test_it_always_comes_to_an_end(policy: RetryPolicy, every: int) -> None:
    """Whether the page fails or kills, by turns or only one of them, it is given up after a bounded number of tries."""
    deaths = 0
    for attempt in range(1, policy.attempts + policy.deaths + 1):
        deaths += every != 0 and attempt % every == 0
        decision = after_failure("x", attempt=attempt, deaths=deaths, permanent=False, now=0.0, policy=policy)
        if isinstance(decision, GiveUp):
            return
    raise AssertionError("it would have been tried for ever")


def test_a_plain_failure_is_tried_three_times_and_then_says_so() -> None:
    assert after_failure("no", attempt=1, deaths=0, permanent=False, now=10.0, policy=POLICY) == Retry(12.0)
    assert after_failure("no", attempt=2, deaths=0, permanent=False, now=10.0, policy=POLICY) == Retry(14.0)
    last = after_failure("no", attempt=3, deaths=0, permanent=False, now=10.0, policy=POLICY)
    assert last == GiveUp("no (tried 3 times)")


def test_what_cannot_pass_is_not_tried_again() -> None:
    decision = after_failure("encrypted", attempt=1, deaths=0, permanent=True, now=0.0, policy=POLICY)
    assert decision == GiveUp("encrypted")


def test_a_killer_is_named_after_three_deaths() -> None:
    assert isinstance(after_failure("x", attempt=2, deaths=2, permanent=False, now=0, policy=POLICY), Retry)
    decision = after_failure("x", attempt=3, deaths=3, permanent=False, now=0, policy=POLICY)
    assert decision == GiveUp("x (3 processes died with it)")


@given(policies, st.integers(1, 10_000))
def test_delays_grow_and_stay_below_the_ceiling(policy: RetryPolicy, attempt: int) -> None:
    assert 0 <= delay(attempt, policy) <= delay(attempt + 1, policy) <= policy.max_delay_s
