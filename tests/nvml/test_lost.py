"""A GPU of two that the driver loses: while the daemon runs, and before it starts. vLLM itself is stood in for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
L4, GONE = "gpu NVIDIA L4|23034|0|8.9|0", "gpu NVIDIA L4|23034|0|8.9|15"

PROGRAM = """
import asyncio, json, os
from pathlib import Path
import numpy as np
from inboxd.config import Engine, Settings
from inboxd.engines import vllm_local, vllm_plan
from inboxd.engines import vllm_wire as wire
from inboxd.errors import EngineLost
from inboxd.model import PageImage

GONE = False

class Process:
    @classmethod
    async def launch(cls, environment, sockets):
        made = cls()
        made.gpu = environment["CUDA_VISIBLE_DEVICES"]
        return made
    async def start(self, order):
        return wire.Started(10**6, ())
    async def read(self, order, pixels):
        await asyncio.sleep(0)
        if GONE and self.gpu == "1":
            raise EngineLost("the vLLM process died")
        return wire.Answer(0, "text", "stop", 9, 9, -0.1, 0.1)
    async def close(self):
        pass

vllm_plan.cpu_build = lambda: False
vllm_local.VllmProcess = Process
page = PageImage(np.zeros((28, 28, 3), np.uint8), 28, 28, ink=1.0)
settings = Settings(
    state=os.environ["STATE"],
    engine=Engine(
        name="vllm", model=os.environ["MODEL"], model_profile="tiny-lightonocr-cut", profiles=os.environ["PROFILES"]
    ),
)

async def live():
    global GONE
    engine = vllm_local.create(settings)
    info = await engine.start()
    told = {"devices": info.device, "at_start": engine.missing, "window": engine.limits.pages_in_flight}
    if os.environ.get("LOSE"):
        GONE = True
        Path(os.environ["FAKE_NVML"]).write_text(os.environ["LOSE"])
        pages = await asyncio.gather(*(engine.read(page) for _ in range(4)))
        told["died"] = sum(getattr(outcome, "died", False) for outcome in pages)
        while "no longer answers" not in engine.missing:
            await asyncio.sleep(0.05)
        told |= {"then": engine.missing, "window_then": engine.limits.pages_in_flight}
        told["read"] = (await engine.read(page)).text
    await engine.close()
    print(json.dumps(told))

asyncio.run(live())
"""


def lived(nvml: Any, tmp_path: Path, **more: str) -> dict[str, Any]:
    places = {
        "STATE": str(tmp_path),
        "MODEL": str(HERE.parent / "tiny_lightonocr"),
        "PROFILES": str(HERE.parent / "vllm_cpu" / "profiles.toml"),
    }
    done = nvml.python(PROGRAM, **places, **more)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_one_lost_in_mid_work_leaves_the_other_reading(nvml: Any, tmp_path: Path) -> None:
    nvml.is_a(L4, L4)
    told = lived(nvml, tmp_path, LOSE=f"{L4}\n{GONE}\n")
    assert (told["devices"], told["at_start"]) == ("NVIDIA L4, NVIDIA L4", "")
    assert told["died"] == 2, "the pages in it, and no other"
    assert told["then"] == "1 of 2 engines: GPU 1: GPU 1 (NVIDIA L4) no longer answers"
    assert told["window_then"] * 2 == told["window"]
    assert told["read"] == "text"


def test_one_lost_before_the_start_is_missed(nvml: Any, tmp_path: Path) -> None:
    nvml.is_a(L4, GONE)
    told = lived(nvml, tmp_path)
    assert (told["devices"], told["at_start"]) == ("NVIDIA L4", "1 of 2 engines: GPU 1: GPU is lost")


def test_one_that_we_were_told_to_use_and_that_is_lost_is_missed_too(nvml: Any, tmp_path: Path) -> None:
    nvml.is_a(GONE, L4)
    told = lived(nvml, tmp_path, CUDA_VISIBLE_DEVICES="0,1")
    assert (told["devices"], told["at_start"]) == ("NVIDIA L4", "1 of 2 engines: GPU 0: GPU is lost")


def config(tmp_path: Path, parts: int, name: str = "vllm") -> str:
    file = tmp_path / "inboxd.toml"
    (tmp_path / "inbox").mkdir()
    file.write_text(
        f'state = "{tmp_path}/state"\n[engine]\nname = "{name}"\ntensor_parallel = {parts}\n'
        f'[[inbox]]\npath = "{tmp_path}/inbox"\n'
    )
    return str(file)


def test_a_tensor_split_over_more_cards_than_there_are_is_refused_by_check_and_run(nvml: Any, tmp_path: Path) -> None:
    nvml.is_a(L4)
    file = config(tmp_path, 2)
    findings = nvml.inboxd("check", "--json", "--config", file)
    assert findings.returncode == 78
    (engine,) = (finding for finding in json.loads(findings.stdout) if finding["about"] == "engine")
    assert engine["level"] == "fail"
    assert engine["says"] == "engine.tensor_parallel = 2, but this machine has 1 usable GPU"
    assert "one engine for each GPU" in engine["advice"]
    ended = nvml.inboxd("run", "--config", file)
    assert ended.returncode == 78
    assert engine["says"] in ended.stderr and engine["advice"] in ended.stderr


def test_as_many_cards_as_the_tensor_wants_are_no_matter(nvml: Any, tmp_path: Path) -> None:
    nvml.is_a(L4, L4)
    findings = json.loads(nvml.inboxd("check", "--json", "--config", config(tmp_path, 2)).stdout)
    assert not any("tensor_parallel" in finding["says"] for finding in findings)


def test_where_pages_are_read_on_the_processor_it_does_not_matter(nvml: Any, tmp_path: Path) -> None:
    nvml.is_a("init 9")
    findings = json.loads(nvml.inboxd("check", "--json", "--config", config(tmp_path, 2, "auto")).stdout)
    assert not any("tensor_parallel" in finding["says"] for finding in findings)


def test_what_it_takes_to_refuse_it_is_light(nvml: Any) -> None:
    nvml.is_a(L4)
    done = nvml.python(
        "import sys; from inboxd.config import Engine, Settings; from inboxd.engines import registry\n"
        "try: registry.choose(Settings(engine=Engine(name='vllm', tensor_parallel=2)))\n"
        "except Exception as error: print(error.exit_code, sorted({'torch', 'vllm'} & sys.modules.keys()))"
    )
    assert done.stdout == "78 []\n", done.stderr
