"""How much of this machine we may use, or of the container or systemd slice that we are in."""

from __future__ import annotations

import os
from pathlib import Path


def cores(root: Path = Path("/")) -> int:
    """The cores that we may use: CPU affinity and cgroup quota counted."""
    usable = len(os.sched_getaffinity(0))
    for group in _groups(root):
        quota, _, period = _first(group / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit():
            usable = min(usable, max(1, round(int(quota) / int(period))))
    return usable


def free_memory(root: Path = Path("/")) -> int:
    """Bytes that can be had without swapping: the machine's, or less where a cgroup says so."""
    fields = dict(line.split(":", 1) for line in (root / "proc/meminfo").read_text().splitlines())
    free = int(fields["MemAvailable"].split()[0]) * 1024
    for group in _groups(root):
        limit, used = _first(group / "memory.max"), _first(group / "memory.current")
        if limit.isdigit() and used.isdigit():
            free = min(free, max(0, int(limit) - int(used)))
    return free


def _groups(root: Path) -> list[Path]:
    """Our cgroup and those round it (cgroup v2); empty where the machine has none."""
    mount = root / "sys/fs/cgroup"
    own = next((line[3:] for line in _lines(root / "proc/self/cgroup") if line.startswith("0::")), None)
    if own is None:
        return []
    group = mount / own.lstrip("/")
    return [group, *(parent for parent in group.parents if parent.is_relative_to(mount))]


def _first(path: Path) -> str:
    return next(iter(_lines(path)), "")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:  # an older kernel, or a controller that is off: no limit to heed
        return []
