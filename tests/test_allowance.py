"""As many processes as cores and memory allow, a container's limits counted."""

import os
from pathlib import Path

import pytest

from inboxd import allowance, config
from inboxd.engines import cpu

GB = 1024**3


@pytest.mark.parametrize(
    ("cores", "free", "expected"),
    [(2, 20 * GB, 2), (64, 10 * GB, 8), (4, GB // 2, 1), (1, 64 * GB, 1)],
)
def test_cores_are_used_as_far_as_memory_goes(cores: int, free: int, expected: int) -> None:
    assert cpu.fitting(cores, free) == expected


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with 16 GB free, and us in a cgroup of a cgroup."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\nHugePages_Total: 0\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/system.slice/inboxd.service\n")
    (tmp_path / "sys/fs/cgroup/system.slice/inboxd.service").mkdir(parents=True)
    return tmp_path


def limit(machine: Path, group: str, **values: str) -> None:
    for name, value in values.items():
        (machine / "sys/fs/cgroup" / group / name.replace("_", ".")).write_text(value + "\n")


def test_without_limits_the_machine_counts(machine: Path) -> None:
    limit(machine, "system.slice", cpu_max="max 100000", memory_max="max")
    assert allowance.free_memory(machine) == 16 * GB
    assert allowance.cores(machine) >= 1


def test_the_tightest_limit_round_us_counts(machine: Path) -> None:
    limit(machine, "system.slice", memory_max=str(4 * GB), memory_current=str(GB), cpu_max="100000 100000")
    limit(
        machine, "system.slice/inboxd.service", memory_max=str(8 * GB), memory_current=str(GB), cpu_max="50000 100000"
    )
    assert allowance.free_memory(machine) == 3 * GB
    assert allowance.cores(machine) == 1


def test_a_machine_without_cgroups_has_no_such_limits(machine: Path) -> None:
    (machine / "proc/self/cgroup").unlink()
    assert allowance.free_memory(machine) == 16 * GB


def test_renderers_are_as_many_as_the_cores_that_are_ours_but_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 7, 9})
    assert config.Settings().render_workers in (1, 2)  # less where the tests run under a quota
    assert config.Settings(render=config.Render(workers=9)).render_workers == 9
