"""Health samples of real processes."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from pathlib import Path

from inboxd.model import MemorySample
from inboxd.rooms.vitals import Pulse, Vitals, family

MIB = 1024**2
HOLD = "import sys; held = bytearray(64 << 20); print('held', flush=True); sys.stdin.read()"


class FakeEngine:
    """An engine with figures of its own."""

    async def memory(self) -> MemorySample | None:
        return MemorySample(host_rss=1, torch_reserved=2, torch_allocated=1)


def test_the_host_memory_of_every_process_of_ours_counts() -> None:
    vitals = Vitals(Pulse())
    gc.collect()  # what earlier tests left must not be given back meanwhile
    before = asyncio.run(vitals.sample(None))
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert family(os.getpid())[0] == os.getpid() and child.pid in family(os.getpid())
        after = asyncio.run(vitals.sample(None))
        child.communicate()
    assert after.memory.host_rss - before.memory.host_rss > 60 * MIB
    assert child.pid not in family(os.getpid())
    assert list(vitals.samples) == [before, after]


def test_the_engine_adds_its_own_figures_and_not_its_host_memory_twice() -> None:
    taken = asyncio.run(Vitals(Pulse()).sample(FakeEngine()))  # type: ignore[arg-type]
    assert taken.memory.torch_reserved == 2
    assert taken.memory.host_rss > MIB


def test_open_files_are_a_share_of_what_may_be_opened(tmp_path: Path) -> None:
    vitals = Vitals(Pulse())
    before = asyncio.run(vitals.sample(None)).open_files
    held = [(tmp_path / "f").open("w") for _ in range(20)]
    assert asyncio.run(vitals.sample(None)).open_files > before > 0
    for file in held:
        file.close()


def test_the_pace_is_the_median_since_the_last_sample() -> None:
    pulse = Pulse()
    for read_s in (1.0, 9.0, 2.0):
        pulse.page_read(read_s, None)
    assert pulse.take_pace() == 2.0
    pulse.page_read(1.4, 700)
    assert pulse.take_pace() == 2.0  # seconds for 1,000 tokens
    assert pulse.take_pace() is None
    assert pulse.pages == 4
