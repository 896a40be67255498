"""When the daemon should restart itself: samples and a policy in, one of four verdicts out.

Every figure becomes a *level* that is compared with a limit. A limit is met only by `Policy.samples` levels in a
row; a level between the limit and `RELEASE` of it neither adds to the row nor breaks it, so a figure that hovers
at its limit cannot make the verdict flap. docs/recycling.md argues for each figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from inboxd.model import MemorySample

WINDOW = 30
"""Samples that a trend is looked for in: long against one document, short against a life."""

RELEASE = 0.8
"""A row of levels over the limit ends only below this share of the limit."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The daemon at one moment. `at` is monotonic seconds; `pages` counts from the start of this life."""

    at: float
    memory: MemorySample
    pages: int
    in_flight: int = 0
    pace: float | None = None  # median seconds in the engine of a page (of 1,000 tokens, where they are counted)
    open_files: float = 0.0  # share of the descriptors that the process may open


@dataclass(frozen=True, slots=True)
class Policy:
    """The `[health]` settings; a limit of 0 is not judged."""

    fragmentation: float
    alloc_retries: int
    growth: int
    grown: int
    slowdown: float
    open_files: float
    samples: int
    min_life_s: float
    max_life_s: float
    max_recycles: int


@dataclass(frozen=True, slots=True)
class Healthy:
    """Go on."""


@dataclass(frozen=True, slots=True)
class Relieve:
    """Ask the engine to give cached memory back; a milder remedy than a restart."""

    reason: str


@dataclass(frozen=True, slots=True)
class Recycle:
    """Drain, write `reason` down and leave for the next life."""

    reason: str


@dataclass(frozen=True, slots=True)
class Exhausted:
    """A restart is due, but restarts of the last hour did not help: stay up, and say so loudly."""

    reason: str


Verdict = Healthy | Relieve | Recycle | Exhausted


def verdict(
    samples: Sequence[Sample],
    policy: Policy,
    now: float,
    started: float,
    *,
    recycles: int,
    relieved: float | None = None,
    can_relieve: bool = False,
) -> Verdict:
    """Judge this life by its samples, oldest first.

    `now`, `started` and `relieved` (when the engine last gave memory back) are monotonic seconds like `Sample.at`;
    `recycles` counts the planned restarts of the last hour. Fragmentation is answered by `Relieve` first where the
    engine can; if it is back within `WINDOW` samples of that, by `Recycle`.
    """
    age = now - started
    if age < policy.min_life_s:
        return Healthy()
    # What an emptied cache looked like before it was emptied says nothing of it now.
    since = [sample for sample in samples if relieved is None or sample.at > relieved]
    if reason := _fragmented(since, policy):
        if can_relieve and (relieved is None or len(since) > WINDOW):
            return Relieve(reason)
    else:
        warm = [sample for sample in samples if sample.at >= started + policy.min_life_s]
        reason = (
            _retried(samples, policy)
            or _grown(warm, policy, "host memory", lambda sample: sample.memory.host_rss)
            or _grown(warm, policy, "GPU memory", lambda sample: sample.memory.gpu_ours)
            or _slowed(warm, policy)
            or _files(samples, policy)
            or _aged(age, policy)
        )
    if not reason:
        return Healthy()
    if recycles >= policy.max_recycles:
        return Exhausted(f"{reason}; already restarted {recycles} times within the hour")
    return Recycle(reason)


def fragmentation(memory: MemorySample) -> float | None:
    """Share of the engine's memory that it holds and cannot use, 0 to 1; None where it has no such figures.

    The allocator took `torch_reserved` from the device to serve at most `torch_peak` at once. What lies between
    did not serve the largest need so far, so the next batch can't count on it either: it is in pieces.
    """
    if not memory.torch_reserved or memory.torch_allocated is None:
        return None
    need = max(memory.torch_peak or 0, memory.torch_allocated)
    return max(0.0, (memory.torch_reserved - need) / memory.torch_reserved)


def _met(levels: Iterable[float | None], limit: float, samples: int) -> bool:
    """Whether the newest levels are at or over the limit, `samples` in a row."""
    row = 0
    for level in levels:
        if level is None:
            continue
        if level >= limit:
            row += 1
        elif level < limit * RELEASE:
            row = 0
    return row >= samples


def _recent(count: int, policy: Policy) -> range:
    """Indices of the samples that can still matter to a row."""
    return range(max(0, count - 4 * policy.samples), count)


def _fragmented(samples: Sequence[Sample], policy: Policy) -> str:
    levels = [fragmentation(samples[i].memory) for i in _recent(len(samples), policy)]
    if not policy.fragmentation or not _met(levels, policy.fragmentation, policy.samples):
        return ""
    memory = samples[-1].memory
    held, pieces = memory.torch_reserved or 0, memory.torch_inactive_split
    detail = f", {_gib(pieces)} of it free in pieces" if pieces is not None else ""
    return (
        f"memory fragmentation {fragmentation(memory) or 0:.1%} of the {_gib(held)} that the engine holds{detail} "
        f"(limit {policy.fragmentation:.0%})"
    )


def _retried(samples: Sequence[Sample], policy: Policy) -> str:
    def retries(i: int) -> float:
        return (samples[i].memory.torch_alloc_retries or 0) - (
            samples[max(0, i - WINDOW)].memory.torch_alloc_retries or 0
        )

    levels = [retries(i) for i in _recent(len(samples), policy)]
    if not policy.alloc_retries or not _met(levels, policy.alloc_retries, policy.samples):
        return ""
    return f"the GPU allocator had to flush its cache {levels[-1]:.0f} times in {WINDOW} samples to find room"


def _grown(samples: Sequence[Sample], policy: Policy, what: str, bytes_of: Callable[[Sample], int | None]) -> str:
    """A leak raises the floor under all the noise, third after third of the window, for as long as pages are read."""
    busy = [
        (new.pages, amount) for old, new in pairwise(samples) if new.pages > old.pages and (amount := bytes_of(new))
    ]
    if not policy.growth or len(busy) < WINDOW:
        return ""
    third = WINDOW // 3

    def floor(end: int) -> int:
        return min(amount for _, amount in busy[end - third : end])

    def rate(end: int) -> float:
        """Bytes for 1,000 pages by which the floor rose, in the slower of the two steps up to `end`."""
        early, middle, late = end - 2 * third, end - third, end
        steps = ((early, middle), (middle, late))
        return min((floor(b) - floor(a)) / (busy[b - 1][0] - busy[a - 1][0]) for a, b in steps) * 1000

    total = floor(len(busy)) - floor(third)
    levels = [rate(i + 1) for i in _recent(len(busy), policy) if i + 1 >= WINDOW]
    if total < policy.grown or not _met(levels, policy.growth, policy.samples):
        return ""
    return f"{what} grew by {_gib(total)}, lately {levels[-1] / 1024**2:.0f} MiB for every 1,000 pages"


def _slowed(samples: Sequence[Sample], policy: Policy) -> str:
    """Against the first pages of this life that were read at a like load, so that a busier hour is not an illness."""
    timed = [sample for sample in samples if sample.pace]

    def drift(i: int) -> float | None:
        load = max(timed[i].in_flight, 1)
        like = [s.pace for s in timed[:i] if s.pace and load / 2 <= max(s.in_flight, 1) <= load * 2][:WINDOW]
        return (timed[i].pace or 0.0) / median(like) if len(like) == WINDOW else None

    levels = [drift(i) for i in _recent(len(timed), policy)]
    if not policy.slowdown or not _met(levels, policy.slowdown, policy.samples):
        return ""
    return f"pages take {levels[-1] or policy.slowdown:.1f} times as long as early in this life at a like load"


def _files(samples: Sequence[Sample], policy: Policy) -> str:
    levels = [samples[i].open_files for i in _recent(len(samples), policy)]
    if not policy.open_files or not _met(levels, policy.open_files, policy.samples):
        return ""
    return f"{levels[-1]:.0%} of the file descriptors that this process may open are in use"


def _aged(age: float, policy: Policy) -> str:
    if not policy.max_life_s or age < policy.max_life_s:
        return ""
    return f"this life is {age / 3600:.1f} hours old (limit {policy.max_life_s / 3600:.1f})"


def _gib(amount: int) -> str:
    return f"{amount / 1024**3:.1f} GiB"
