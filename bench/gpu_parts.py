"""What each part of a running daemon takes of the processors, and which part holds the others up."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from pathlib import Path

MAIN, RENDER, FRONT, CORE, OTHER = "main", "render", "front end", "engine core", "other"
TICKS = os.sysconf("SC_CLK_TCK")
GPUS_BUSY = 92.0
"""Per cent of the time from which on a GPU counts as the bottleneck: bare vLLM keeps an H200 busy for 94."""


class Parts:
    """Samples the CPU seconds of this process and all below it, twice a second, by what each process does."""

    def __init__(self) -> None:
        self._kinds: dict[int, str] = {}
        self._rows: list[tuple[float, dict[int, float]]] = []
        self._stop = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        self._stop.set()

    def used(self, start: float, end: float) -> dict[str, list[float]]:
        """CPU seconds between two moments (monotonic): for each part, of each of its processes, the busiest first."""
        before: dict[int, float] = {}
        spent: dict[int, float] = {}
        for at, seconds in self._rows:
            if at <= start:
                before = seconds
            elif at <= end:
                spent |= seconds
        parts = defaultdict(list)
        for pid, seconds in spent.items():
            parts[self._kinds[pid]].append(round(seconds - before.get(pid, 0.0), 2))
        return {part: sorted(each, reverse=True) for part, each in parts.items()}

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            self._rows.append((time.monotonic(), self._look()))

    def _look(self) -> dict[int, float]:
        seconds: dict[int, float] = {}
        parents: dict[int, int] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    stat = Path("/proc", entry, "stat").read_text()
                except OSError:  # it ended just now
                    continue
                fields = stat[stat.rindex(")") + 2 :].split()
                parents[int(entry)] = int(fields[1])
                seconds[int(entry)] = (int(fields[11]) + int(fields[12])) / TICKS
        for pid in parents:
            if pid not in self._kinds and (kind := self._kind(pid, parents)):
                self._kinds[pid] = kind
        return {pid: seconds[pid] for pid in parents if pid in self._kinds}

    def _kind(self, pid: int, parents: dict[int, int]) -> str:
        """ "" for what is none of ours, and while a child of ours has not become what it is to be."""
        me = os.getpid()
        if pid == me:
            return MAIN
        line = [pid]
        while line[-1] != me:
            if line[-1] not in parents:
                return ""
            line.append(parents[line[-1]])
        if len(line) > 2:
            return CORE if _command(line[-2]).find(b"vllm_child") >= 0 else OTHER
        command = _command(pid)
        if command == _command(me):
            return ""
        kinds = {b"inboxd.engines.vllm_child": FRONT, b"inboxd.rooms.render.worker": RENDER}
        return next((kind for name, kind in kinds.items() if name in command), OTHER)


def bottleneck(gpus_busy: list[float], cores: dict[str, list[float]]) -> str:
    """What holds the pages up: the GPUs (per cent busy), or the process nearest to one whole core (`cores` used)."""
    if gpus_busy and min(gpus_busy) >= GPUS_BUSY:
        return f"the GPUs: busy {' and '.join(map(str, gpus_busy))} % of the time"
    # A core of vLLM's spins while it waits for its GPU, and says nothing so.
    nearest = [(max(each), part) for part, each in cores.items() if part != CORE and each]
    if not nearest:
        return "unknown"
    used, part = max(nearest)
    idle = f"GPUs busy {' and '.join(map(str, gpus_busy))} %, " if gpus_busy else ""
    return f"{idle}nearest to a whole core: {part}, {used:.2f} of one"


def _command(pid: int) -> bytes:
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:
        return b""
