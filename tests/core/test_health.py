"""When the daemon restarts itself: what each figure needs before it counts, and in which order remedies come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inboxd.config import Health
from inboxd.core.health import (
    WINDOW,
    Exhausted,
    Healthy,
    Policy,
    Recycle,
    Relieve,
    Sample,
    Verdict,
    fragmentation,
    verdict,
)
from inboxd.model import MemorySample

MIB, GIB = 1024**2, 1024**3
POLICY = Health().policy
N = POLICY.samples
MINUTE = 60.0


def gpu(share: float, *, reserved: int = 100 * GIB) -> MemorySample:
    """Memory of an engine whose largest need left this share of what it holds unused."""
    peak = round(reserved * (1 - share))
    return MemorySample(
        host_rss=4 * GIB,
        torch_reserved=reserved,
        torch_allocated=peak - 2 * GIB,
        torch_peak=peak,
        torch_inactive_split=GIB,
    )


def minutes(*memories: MemorySample, start: float = 0.0, pages: int = 100) -> list[Sample]:
    """One sample a minute, each after `pages` more pages."""
    return [Sample(start + i * MINUTE, memory, pages=i * pages) for i, memory in enumerate(memories)]


def judge(samples: list[Sample], policy: Policy = POLICY, recycles: int = 0, **more: object) -> Verdict:
    """As of the newest sample, in a life that was old enough at the first."""
    started = samples[0].at - policy.min_life_s
    return verdict(samples, policy, samples[-1].at, started, recycles=recycles, **more)  # type: ignore[arg-type]


def test_what_the_engine_holds_beyond_its_largest_need_is_fragmented() -> None:
    assert fragmentation(gpu(0.2)) == pytest.approx(0.2)


def test_cached_memory_that_a_batch_once_needed_is_not_fragmented() -> None:
    """Measured on an H200 after oversized batches: 19 of 102.7 GiB idle, and all of it usable again."""
    after_a_giant_page = MemorySample(
        host_rss=0, torch_reserved=round(102.65 * GIB), torch_allocated=round(83.62 * GIB), torch_peak=round(102 * GIB)
    )
    share = fragmentation(after_a_giant_page)
    assert share is not None and share < 0.01


def test_an_engine_without_a_gpu_has_no_such_figure() -> None:
    assert fragmentation(MemorySample(host_rss=GIB)) is None


def test_an_emptied_cache_is_not_less_than_nothing() -> None:
    assert fragmentation(replace(gpu(0.1), torch_reserved=50 * GIB, torch_allocated=49 * GIB)) == 0.0


def test_fragmentation_counts_after_enough_samples_in_a_row() -> None:
    bad = [gpu(0.2)] * N
    assert judge(minutes(gpu(0.0), *bad[1:])) == Healthy()
    reason = judge(minutes(gpu(0.0), *bad))
    assert isinstance(reason, Recycle)
    assert "20.0% of the 100.0 GiB" in reason.reason and "limit 15%" in reason.reason


def test_a_good_sample_ends_the_row_and_a_nearly_good_one_does_not() -> None:
    bad, nearly, good = gpu(0.2), gpu(0.14), gpu(0.05)
    assert judge(minutes(*[bad] * (N - 1), good, *[bad] * (N - 1))) == Healthy()
    assert isinstance(judge(minutes(*[bad] * (N - 1), nearly, bad)), Recycle)
    assert judge(minutes(*[nearly] * 50)) == Healthy()


def test_a_life_is_not_cut_short() -> None:
    samples = minutes(*[gpu(0.9)] * 10)
    started = samples[-1].at - POLICY.min_life_s
    assert verdict(samples, POLICY, samples[-1].at - 1, started, recycles=0) == Healthy()
    assert isinstance(verdict(samples, POLICY, samples[-1].at, started, recycles=0), Recycle)


def test_a_life_ends_at_its_longest_age_even_without_samples() -> None:
    assert verdict([], POLICY, POLICY.max_life_s - 1, 0.0, recycles=0) == Healthy()
    old = verdict([], POLICY, POLICY.max_life_s, 0.0, recycles=0)
    assert isinstance(old, Recycle) and "168.0 hours old" in old.reason


def test_beyond_the_hourly_limit_it_stays_up_and_says_why() -> None:
    samples = minutes(*[gpu(0.3)] * N)
    tired = judge(samples, recycles=POLICY.max_recycles)
    assert isinstance(tired, Exhausted)
    assert "fragmentation 30.0%" in tired.reason and "3 times within the hour" in tired.reason


def test_the_engine_is_asked_to_give_memory_back_before_it_is_restarted() -> None:
    before = minutes(*[gpu(0.3)] * N)
    assert isinstance(judge(before, can_relieve=True), Relieve)
    relieved = before[-1].at + 1

    helped = before + minutes(*[gpu(0.02)] * N, start=relieved + MINUTE)
    assert judge(helped, can_relieve=True, relieved=relieved) == Healthy()

    too_soon = before + minutes(*[gpu(0.3)] * (N - 1), start=relieved + MINUTE)
    assert judge(too_soon, can_relieve=True, relieved=relieved) == Healthy()
    in_vain = before + minutes(*[gpu(0.3)] * N, start=relieved + MINUTE)
    assert isinstance(judge(in_vain, can_relieve=True, relieved=relieved), Recycle)


def test_relief_that_lasted_is_tried_again() -> None:
    samples = minutes(*[gpu(0.02)] * WINDOW, *[gpu(0.3)] * N)
    assert isinstance(judge(samples, can_relieve=True, relieved=-1.0), Relieve)


def test_allocation_retries_count_while_they_are_recent() -> None:
    def retries(*counts: int) -> list[Sample]:
        return minutes(*(MemorySample(host_rss=0, torch_alloc_retries=count) for count in counts))

    burst = retries(*[0] * 40, *[6] * N)
    assert isinstance(judge(burst), Recycle)
    assert judge(retries(*[0] * 40, *[4] * N)) == Healthy()
    assert judge(retries(*[100] * 80)) == Healthy()


def test_growth_needs_a_rate_and_an_amount() -> None:
    def growing(per_minute: int, count: int = 90, pages: int = 500) -> list[Sample]:
        return minutes(*(MemorySample(host_rss=4 * GIB + i * per_minute) for i in range(count)), pages=pages)

    leak = judge(growing(50 * MIB))
    assert isinstance(leak, Recycle) and "host memory grew by 3.9 GiB, lately 100 MiB" in leak.reason
    assert judge(growing(10 * MIB)) == Healthy()  # 20 MiB for every 1,000 pages
    assert judge(growing(35 * MIB, count=WINDOW + 5)) == Healthy()  # fast, and not yet much


def test_ever_larger_documents_over_an_even_floor_are_no_leak() -> None:
    spikes = (MemorySample(host_rss=4 * GIB + (i * 200 * MIB if i % 5 == 0 else 0)) for i in range(90))
    assert judge(minutes(*spikes, pages=500)) == Healthy()


def test_what_a_life_fills_while_it_warms_up_is_no_leak() -> None:
    warm = round(POLICY.min_life_s / MINUTE)
    amounts = [i * 200 * MIB for i in range(warm)]
    amounts += [amounts[-1] + i * 20 * MIB for i in range(WINDOW + 10)]
    samples = minutes(*(MemorySample(host_rss=amount) for amount in amounts), pages=200)
    assert verdict(samples, POLICY, samples[-1].at, 0.0, recycles=0) == Healthy()


def test_growth_of_gpu_memory_outside_the_allocator_is_seen() -> None:
    """As vllm-ascend's issue 5855: 1 → 5 GB under images of varying size, until it ran out."""
    samples = minutes(*(MemorySample(host_rss=GIB, gpu_ours=20 * GIB + i * 60 * MIB) for i in range(90)))
    reason = judge(samples)
    assert isinstance(reason, Recycle) and reason.reason.startswith("GPU memory grew")


def test_a_step_in_memory_is_no_leak() -> None:
    step = minutes(*(MemorySample(host_rss=(4 if i < 45 else 9) * GIB) for i in range(90)))
    assert all(judge(step[:end]) == Healthy() for end in range(1, 90))


def test_slower_pages_count_only_against_a_like_load() -> None:
    early = [Sample(i * MINUTE, MemorySample(0), pages=i, in_flight=8, pace=1.0) for i in range(WINDOW)]

    def then(in_flight: int, pace: float) -> Verdict:
        later = [
            Sample((WINDOW + i) * MINUTE, MemorySample(0), pages=WINDOW + i, in_flight=in_flight, pace=pace)
            for i in range(N)
        ]
        return judge(early + later)

    assert isinstance(then(8, 3.5), Recycle)
    assert then(8, 2.5) == Healthy()
    assert then(64, 10.0) == Healthy()


def test_open_files_near_the_limit_count() -> None:
    samples = [Sample(i * MINUTE, MemorySample(0), pages=0, open_files=0.85) for i in range(N)]
    reason = judge(samples)
    assert isinstance(reason, Recycle) and "85%" in reason.reason


def test_a_limit_of_zero_is_not_judged() -> None:
    off = replace(POLICY, fragmentation=0.0, alloc_retries=0, growth=0, slowdown=0.0, open_files=0.0, max_life_s=0.0)
    ill = [
        Sample(i * MINUTE, replace(gpu(0.5), host_rss=i * GIB, torch_alloc_retries=i), i * 10, 8, 1.0 + i, 0.99)
        for i in range(100)
    ]
    assert judge(ill, off) == Healthy()
    assert isinstance(judge(ill), Recycle)
