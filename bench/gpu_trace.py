"""What bench/gpu.py runs inside vLLM's engine process to see where its time goes while it works."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import Counter
from typing import Any

EVERY_S = 0.005
DEPTH = 3
"""Frames of the stack that tell two places apart."""


class Trace:
    """Mixed into the worker: how long the GPU was idle, in which gaps, and what the engine's thread did meanwhile."""

    def trace_start(self) -> None:
        """Begin to record."""
        import torch
        from torch.profiler import ProfilerActivity, profile

        self._seen: Counter[str] = Counter()
        self._ended = threading.Event()
        threading.Thread(target=self._sample, args=(threading.get_ident(),), daemon=True).start()
        self._profile = profile(activities=[ProfilerActivity.CUDA]) if torch.cuda.is_initialized() else None
        if self._profile is not None:
            self._profile.start()
        self._began = time.monotonic()

    def trace_stop(self) -> dict[str, Any]:
        """End it: seconds, the GPU's busy share of them, its gaps by length, its kernels, the thread's places."""
        seconds = time.monotonic() - self._began
        self._ended.set()
        samples = max(1, sum(self._seen.values()))
        places = [(place, round(count / samples, 3)) for place, count in self._seen.most_common(25)]
        told: dict[str, Any] = {"seconds": round(seconds, 2), "places": places}
        if self._profile is None:
            return told
        self._profile.stop()
        events = [event for event in self._profile.events() if str(event.device_type).endswith("CUDA")]
        spans = sorted((event.time_range.start, event.time_range.end) for event in events)
        kernels: Counter[str] = Counter()
        for event in events:
            kernels[_short(event.name)] += event.time_range.end - event.time_range.start
        most = [(name, round(us / 1e6 / seconds, 3)) for name, us in kernels.most_common(20)]
        return told | {"kernels": most, **_gaps(spans)}

    def _sample(self, thread: int) -> None:
        while not self._ended.wait(EVERY_S):
            frame, place = sys._current_frames().get(thread), []
            while frame is not None and len(place) < DEPTH:
                place.append(f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_code.co_name}:{frame.f_lineno}")
                frame = frame.f_back
            self._seen[" < ".join(place)] += 1


def _short(kernel: str) -> str:
    """A kernel's name without its namespaces: what tells it from others stands far behind."""
    return re.sub(r"\w+::|\(anonymous namespace\)::", "", kernel)[:160]


def _gaps(spans: list[tuple[float, float]]) -> dict[str, Any]:
    """The busy share between the first span and the last, and the idle share by the length of its gaps; all in µs."""
    if not spans:
        return {}
    end, busy, gaps = spans[0][0], 0.0, Counter[str]()
    for start, stop in spans:
        if start > end:
            gap = start - end
            longest = next(
                name for name, most in (("< 0.1 ms", 100), ("< 1", 1000), ("< 10", 1e4), ("more", 1e12)) if gap < most
            )
            gaps[longest] += gap
        busy += max(0.0, stop - max(start, end))
        end = max(end, stop)
    whole = end - spans[0][0]
    return {"busy": round(busy / whole, 3), "idle": {name: round(gap / whole, 3) for name, gap in gaps.items()}}
