"""The next engine waits for the memory of the last one, on a stand-in GPU that frees it step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TINY = Path(__file__).parents[1] / "tiny_lightonocr"

# Every pause of the engine's is a step of the machine.
PROGRAM = """
import asyncio, json, os
from pathlib import Path
from inboxd.config import Engine, Settings
from inboxd.engines import vllm_plan, vllm_start
from inboxd.errors import EngineUnusable

facts, steps = Path(os.environ["FAKE_NVML"]), json.loads(os.environ["STEPS"])
taken = 0

def machine(used):
    holder = "process 4194999|%d\\n" % used if used > 1000 and os.environ.get("HELD_BY_THE_DEAD") else ""
    facts.write_text("gpu NVIDIA A10|23028|%d|8.6|0\\n%s" % (used, holder))

async def pause(seconds):
    global taken
    taken += 1
    machine(steps[min(taken, len(steps) - 1)])

machine(steps[0])
vllm_plan.cpu_build = lambda: False
asyncio.sleep = pause
settings = Settings(state=os.environ["STATE"], engine=Engine(name="vllm", model=os.environ["MODEL"]))
try:
    (gpu,) = asyncio.run(vllm_start.check(vllm_plan.plans(settings)[0]))
    print(json.dumps({"free_mib": gpu.free >> 20, "pauses": taken}))
except EngineUnusable as error:
    print(json.dumps({"error": error.what, "pauses": taken}))
"""


def start(nvml: Any, tmp_path: Path, steps: list[int], **more: str) -> dict[str, Any]:
    done = nvml.python(PROGRAM, STEPS=json.dumps(steps), STATE=str(tmp_path), MODEL=str(TINY), **more)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_it_takes_all_that_the_last_life_gives_back(nvml: Any, tmp_path: Path) -> None:
    """Enough is free from the second look on; an engine that started then would stay small for its whole life."""
    told = start(nvml, tmp_path, [20000, 9000, 4000, 500, 500])
    assert told == {"free_mib": 23028 - 500 - 300, "pauses": 4}


def test_a_gpu_at_rest_is_looked_at_twice(nvml: Any, tmp_path: Path) -> None:
    assert start(nvml, tmp_path, [500])["pauses"] == 1


def test_what_the_driver_still_counts_for_the_dead_is_waited_for(nvml: Any, tmp_path: Path) -> None:
    told = start(nvml, tmp_path, [20000, 20000, 20000, 500, 500], HELD_BY_THE_DEAD="1")
    assert told["free_mib"] == 23028 - 500 - 300


def test_what_others_hold_is_not(nvml: Any, tmp_path: Path) -> None:
    told = start(nvml, tmp_path, [22000])
    assert "GiB free" in told["error"] and told["pauses"] == 1
