"""`inboxd gpus` on machines that this one is not."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest


def test_it_shows_each_card_with_its_profile_and_rate(nvml: Any) -> None:
    nvml.is_a("gpu NVIDIA H200|143771|1000|9.0|0", "gpu NVIDIA A10|23028|500|8.6|0", "process 4194999|400")
    done = nvml.inboxd("gpus")
    assert done.returncode == 0, done.stderr
    header, h200, a10 = done.stdout.splitlines()[1:4]
    assert "pages/day" in header
    assert "h200" in h200 and "256" in h200
    assert "a10" in a10 and "43" in a10
    assert "(pid 4194999) holds 419 MB" in done.stdout


def test_the_name_of_who_holds_it_may_be_anything(nvml: Any, tmp_path: Path) -> None:
    """A name that the kernel cut within a character, and one that would write on the screen."""
    for name, shown in (("a日本語日本語", "a日本語日\ufffd"), ("x\x1b[31mred", r"x\x1b[31mred")):
        program = shutil.copy(shutil.which("cat") or "", tmp_path / name)
        with subprocess.Popen([program], stdin=subprocess.PIPE) as holder:
            nvml.is_a("gpu NVIDIA A10|23028|500|8.6|0", f"process {holder.pid}|400")
            done = nvml.inboxd("gpus")
        assert f"GPU 0: {shown} (pid {holder.pid}) holds" in done.stdout, done.stderr


def test_as_json_it_says_all_that_was_decided_and_why(nvml: Any) -> None:
    nvml.is_a("gpu NVIDIA H100 80GB HBM3|81559|1000|9.0|0")
    told = json.loads(nvml.inboxd("gpus", "--json").stdout)
    (gpu,) = told["gpus"]
    assert (gpu["profile"], gpu["batched_tokens"], gpu["batch_pages"]) == ("h100", 16384, 7)
    assert 150 < gpu["pages_in_flight"] <= 192
    assert 5 < gpu["pages_s"] < 8 and gpu["pages_day"] > 400_000
    assert gpu["source"] == "arithmetic"


def test_a_held_card_gets_a_smaller_window(nvml: Any) -> None:
    nvml.is_a("gpu NVIDIA A10|23028|12000|8.6|0")
    (gpu,) = json.loads(nvml.inboxd("gpus", "--json").stdout)["gpus"]
    assert gpu["pages_in_flight"] < 20


def test_a_card_without_kernels_is_refused_with_the_reason(nvml: Any) -> None:
    nvml.is_a("gpu Tesla V100-SXM2-32GB|32768|0|7.0|0")
    done = nvml.inboxd("gpus")
    assert done.returncode == 1
    assert "no kernels" in done.stdout


def test_an_unknown_card_is_judged_by_memory_and_capability(nvml: Any) -> None:
    nvml.is_a(
        "gpu NVIDIA Fancy 9000|49152|0|12.0|0",
        "gpu NVIDIA GeForce RTX 2080 Ti|11264|0|7.5|0",
        "gpu NVIDIA GeForce GTX 1650|4096|0|7.5|0",
    )
    fancy, turing, small = json.loads(nvml.inboxd("gpus", "--json").stdout)["gpus"]
    assert (fancy["profile"], fancy["dtype"], fancy["pages_s"]) == ("unknown-40g", "bfloat16", None)
    assert (turing["profile"], turing["dtype"]) == ("unknown-12g", "float16")
    assert "too little memory" in small["refused"]


def test_without_a_card_it_says_why(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.is_a("init 9")
    done = nvml.inboxd("gpus")
    assert done.returncode == 1
    assert "Driver Not Loaded" in done.stderr
    nvml.is_a("gpu NVIDIA L4|23034|0|8.9|0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = nvml.inboxd("gpus")
    assert done.returncode == 1
    assert "CUDA_VISIBLE_DEVICES hides" in done.stderr
