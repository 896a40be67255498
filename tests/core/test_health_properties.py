"""Over many made-up lives: it never trips on a busy steady state, always on a real leak, and never flaps."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from inboxd.config import Health
from inboxd.core.health import WINDOW, Exhausted, Healthy, Policy, Recycle, Sample, verdict
from inboxd.model import MemorySample

MIB, GIB = 1024**2, 1024**3
MINUTE = 60.0
POLICY = Health(max_life=0).policy
WARM = round(POLICY.min_life_s / MINUTE)
seeds = st.integers(0, 2**32).map(Random)


def first_complaint(samples: list[Sample], policy: Policy = POLICY) -> int | None:
    """Index of the sample after which the verdict first is not Healthy, in a life that began at 0."""
    for end in range(1, len(samples) + 1):
        if verdict(samples[:end], policy, samples[end - 1].at, 0.0, recycles=0) != Healthy():
            return end - 1
    return None


def a_day_at_work(random: Random, minutes: int, held: int, waste: float) -> list[Sample]:
    """A busy engine: needs, loads, paces and page counts jump about, memory is what they need and `waste` more.

    Loads move between idle and full, host memory swings by less than `Policy.grown`, paces by less than
    `Policy.slowdown`, and the allocator's reserve follows its largest need.
    """
    samples: list[Sample] = []
    peak, pages = 0, 0
    for minute in range(minutes):
        need = random.randrange(held // 4)
        peak = max(peak, held + need)
        pages += random.choice((0, 1, random.randrange(600)))
        memory = MemorySample(
            host_rss=3 * GIB + random.randrange(POLICY.grown),
            gpu_ours=held + random.randrange(POLICY.grown),
            torch_reserved=round(peak / (1 - waste)),
            torch_allocated=held + random.randrange(need + 1),
            torch_peak=peak,
            torch_inactive_split=random.randrange(held // 4),
            torch_alloc_retries=random.choice((0, 1)),
        )
        pace = random.uniform(1.0, 1.7) if random.random() < 0.8 else None
        samples.append(Sample(minute * MINUTE, memory, pages, random.randrange(64), pace, random.uniform(0, 0.7)))
    return samples


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(2 * GIB, 140 * GIB), st.floats(0.0, 0.149))
def test_a_busy_steady_state_is_healthy_for_ever(random: Random, held: int, waste: float) -> None:
    samples = a_day_at_work(random, 200, held, waste)
    assert first_complaint(samples) is None


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(100, 1000), st.floats(2.0, 20.0), st.booleans())
def test_a_leak_is_always_found(random: Random, pages: int, times: float, on_gpu: bool) -> None:
    """A leak of at least twice the limit, under noise that hides it from minute to minute."""
    leak = POLICY.growth * times / 1000
    noise = round(leak * pages * WINDOW / 3 * 0.4)
    samples = []
    for minute in range(WARM + WINDOW + 400):
        amount = 2 * GIB + round(leak * minute * pages) + random.randrange(noise)
        memory = MemorySample(host_rss=GIB, gpu_ours=amount) if on_gpu else MemorySample(host_rss=amount)
        samples.append(Sample(minute * MINUTE, memory, minute * pages))
    found = first_complaint(samples)
    to_the_amount = (POLICY.grown + noise) / (leak * pages)
    assert found is not None and found <= WARM + to_the_amount + 2 * WINDOW + 4 * POLICY.samples


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(2 * GIB, 140 * GIB), st.integers(20, 400))
def test_memory_that_breaks_into_pieces_is_always_found(random: Random, held: int, minutes_to_limit: int) -> None:
    """The largest need stays what it was, and the allocator takes ever more to serve it."""
    limit = held / (1 - POLICY.fragmentation)
    samples = []
    for minute in range(max(minutes_to_limit, WARM) + POLICY.samples + 1):
        reserved = held + round((limit - held + MIB) * minute / minutes_to_limit)
        allocated = random.randrange(held // 2, held)
        memory = MemorySample(GIB, torch_reserved=reserved, torch_allocated=allocated, torch_peak=held)
        samples.append(Sample(minute * MINUTE, memory, minute))
    found = first_complaint(samples)
    assert found is not None
    assert found >= minutes_to_limit + POLICY.samples - 2, "not before the limit was met in a row"


@settings(max_examples=30, deadline=None)
@given(
    seeds,
    st.integers(1, 6),
    st.integers(1, 5),
    st.floats(0.0, 1200.0),
    st.floats(0.0, 1.0),
)
def test_it_never_flaps(random: Random, in_a_row: int, cap: int, min_life: float, sick: float) -> None:
    """Lives in a row on a machine that nothing cures: none is too short, and no hour sees more than the cap."""
    policy = Health(samples=in_a_row, max_recycles=cap, min_life=min_life, max_life=0).policy
    started, recycled_at, complained = 0.0, [], False
    samples: list[Sample] = []
    now = 0.0
    for _ in range(8 * 60):
        now += MINUTE
        share = 0.3 if random.random() < sick else random.choice((0.0, 0.14))
        memory = MemorySample(
            GIB, torch_reserved=10 * GIB, torch_allocated=GIB, torch_peak=round(10 * GIB * (1 - share))
        )
        samples.append(Sample(now, memory, len(samples)))
        recent = sum(now - at < 3600 for at in recycled_at)
        decision = verdict(samples, policy, now, started, recycles=recent)
        if isinstance(decision, Recycle):
            assert now - started >= min_life
            assert sum(sample.memory == memory for sample in samples) >= 1
            over = [sample for sample in samples if (sample.memory.torch_peak or 0) < 8 * GIB]
            assert len(over) >= in_a_row
            recycled_at.append(now)
            started, samples = now, []
        complained |= isinstance(decision, Exhausted)
    for at in recycled_at:
        assert sum(at <= other < at + 3600 for other in recycled_at) <= cap
    if sick == 1.0:
        assert recycled_at
        assert complained or cap * max(min_life, in_a_row * MINUTE) >= 3600 - cap * MINUTE
