"""What every section of bench/gpu.py shares: its pages, its settings, its GPU gauge and its record of results."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gpu_pages
import numpy as np

BEGAN = time.monotonic()
TINY = Path(__file__).resolve().parents[1] / "tests" / "tiny_lightonocr"
PROFILES = """
[[model]]
name = "dummy"
longest_edge = {edge}
grid = 28
temperatures = [0.2]
top_p = 0.9
max_tokens = 4096
context = 8192
typical = 800
dialect = "lightonocr"
golden = false
load_format = "dummy"

[[model]]
name = "tiny"
longest_edge = 560
grid = 28
temperatures = [0.0]
max_tokens = 600
context = 2048
typical = 200
dialect = "lightonocr"

[[gpu]]
name = "bench"
memory_gib = 0
dtype = "{dtype}"
memory_share = {share}
headroom_gib = 6.5
batched_tokens = {tokens}
seats = {seats}
kv_dtype = "{kv}"
cuda_graphs = {graphs}
compile_vision = {vision}
source = "bench"
"""


def tiny_model() -> Path:
    """The folder of the tests' tiny checkpoint, its weights unpacked."""
    sys.path.insert(0, str(TINY))
    import weights

    return Path(weights.unpack())


class Bench:
    """What a section needs: where things are, how many pages, and where results go."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.model = Path(options.model)
        self.out = Path(options.out)
        self.pages = options.pages
        self.dry = options.dry
        self.scratch = Path(options.scratch)
        self.section = ""

    def say(self, *words: object) -> None:
        print(f"[{time.monotonic() - BEGAN:6.1f}] {self.section}:", *words, file=sys.__stdout__, flush=True)

    def record(self, kind: str, **facts: Any) -> None:
        with (self.out / "results.jsonl").open("a") as file:
            file.write(json.dumps({"kind": kind, "section": self.section, **facts}, default=str) + "\n")

    def states(self) -> list[Path]:
        """The state folders that this call's section has made, the latest last."""
        made = {int(path.name.rpartition("-")[2]): path for path in self.scratch.glob(f"state-{self.section}-[0-9]*")}
        return [made[at] for at in sorted(made) if at >= BEGAN * 1e9]

    def lengths(self, count: int) -> list[int]:
        return [1 + length // 50 for length in gpu_pages.lengths(count)] if self.dry else gpu_pages.lengths(count)

    def in_memory(self, count: int) -> list[np.ndarray]:
        if self.dry:
            return [page[:280, :560].copy() for page in gpu_pages.drawn(count)]
        try:
            return gpu_pages.in_memory(self.pdfs(count))
        except ImportError:
            return gpu_pages.drawn(count)

    def pdfs(self, count: int) -> list[Path]:
        folder = self.scratch / f"pdfs-{count}"
        return sorted(folder.glob("*.pdf")) or gpu_pages.write_pdfs(folder, count)

    def settings(self, model: str = "dummy", **profile: Any) -> Any:
        from inboxd.config import Engine, Settings

        own = {"dtype": "bfloat16", "share": 0.9, "tokens": 16384, "seats": 256, "kv": "auto", "graphs": "true"}
        own |= {"vision": "false", "edge": 1540, **profile}
        if self.dry:
            own |= {"dtype": "float32", "tokens": 2048, "seats": 8, "graphs": "false", "edge": 560}
        state = self.scratch / f"state-{self.section}-{time.monotonic_ns()}"
        state.mkdir(parents=True)
        (state / "profiles.toml").write_text(PROFILES.format(**own))
        engine = Engine(
            name="vllm",
            model=str(tiny_model() if model == "tiny" else self.model),
            model_profile=model,
            gpu_profile="bench",
            profiles=str(state / "profiles.toml"),
        )
        return Settings(state=str(state), engine=engine, log_level="warning")


class Gauge:
    """Samples every GPU five times a second: utilisation, power, memory."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, list[float], float, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        import pynvml as nvml

        try:
            nvml.nvmlInit()
            handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        except nvml.NVMLError:
            return
        while not self._stop.wait(0.2):
            busy = [nvml.nvmlDeviceGetUtilizationRates(handle).gpu for handle in handles]
            watts = sum(nvml.nvmlDeviceGetPowerUsage(handle) for handle in handles) / 1000
            used = max(nvml.nvmlDeviceGetMemoryInfo(handle).used for handle in handles) / 2**20
            self._rows.append((time.monotonic(), busy, watts, used))

    def busy(self, start: float, end: float) -> list[float]:
        """The share of the time (per cent) that each GPU was busy."""
        rows = [row[1] for row in self._rows if start <= row[0] <= end]
        return [round(statistics.mean(each), 1) for each in zip(*rows, strict=True)]

    def between(self, start: float, end: float) -> dict[str, float | str]:
        rows = [row for row in self._rows if start <= row[0] <= end]
        if not rows:
            return {}
        return {
            "gpu_busy": "/".join(map(str, self.busy(start, end))),
            "watts": round(statistics.mean(row[2] for row in rows)),
            "gpu_mib": round(max(row[3] for row in rows)),
        }

    def close(self) -> None:
        self._stop.set()


@contextmanager
def measuring() -> Iterator[Gauge]:
    gauge = Gauge()
    yield gauge
    gauge.close()


def run_record(
    bench: Bench,
    name: str,
    ends: list[float],
    start: float,
    out_tokens: int,
    gauge: Gauge | None,
    cpu_s: float,
    **more: Any,
) -> None:
    """One line of the table: `ends` are the moments (monotonic) at which pages were done."""
    ends = sorted(ends)
    wall = ends[-1] - start
    low, high = int(len(ends) * 0.2), int(len(ends) * 0.8)
    middle = (high - low) / (ends[high] - ends[low]) if len(ends) >= 64 else None
    facts = {
        "pages": len(ends),
        "wall_s": round(wall, 2),
        "pages_s": round(len(ends) / wall, 3),
        "middle_pages_s": middle and round(middle, 2),
        "out_tokens_s": round(out_tokens / wall),
        "cpu_s": round(cpu_s, 1),
        **(gauge.between(start, ends[-1]) if gauge else {}),
        **more,
    }
    bench.record("run", name=name, **facts)
    bench.say("RUN", name, facts)


def cpu() -> float:
    spent = os.times()
    return spent.user + spent.system
