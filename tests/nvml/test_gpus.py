"""GPU detection through a real pynvml and a stand-in for NVIDIA's library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inboxd.gpus import detect

DETECT = "import msgspec; from inboxd.gpus import detect; print(msgspec.json.encode(detect()).decode())"


def detected(nvml: Any, **variables: str) -> Any:
    done = nvml.python(DETECT, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_card_is_described_with_who_holds_its_memory(nvml: Any) -> None:
    nvml.is_a("gpu NVIDIA A10|23028|20000|8.6|0", f"process {os.getpid()}|15000", "process 4194999|4000")
    (gpu,) = detected(nvml)["gpus"]
    assert (gpu["name"], gpu["capability"], gpu["mig"]) == ("NVIDIA A10", [8, 6], False)
    assert gpu["total"] == 23028 << 20
    assert gpu["free"] == (23028 - 20000 - 300) << 20
    ours, gone = gpu["holders"]
    assert ours["pid"] == os.getpid() and ours["used"] == 15000 << 20 and ours["name"]
    assert gone["name"] == "a process outside this container"


def test_no_driver_is_said_in_words(nvml: Any) -> None:
    nvml.is_a("init 9")
    found = detected(nvml)
    assert found["gpus"] == [] and "Driver Not Loaded" in found["trouble"][0]


def test_a_mismatched_driver_is_said_in_words(nvml: Any) -> None:
    nvml.is_a("init 18")
    assert "version mismatch" in detected(nvml)["trouble"][0]


def test_no_card_is_said_in_words(nvml: Any) -> None:
    nvml.is_a()
    assert detected(nvml)["trouble"] == ["the NVIDIA driver knows of no GPU"]


def test_a_lost_card_does_not_hide_the_others(nvml: Any) -> None:
    nvml.is_a("gpu NVIDIA L4|23034|0|8.9|15", "gpu NVIDIA L4|23034|0|8.9|0")
    found = detected(nvml)
    assert [gpu["index"] for gpu in found["gpus"]] == [1]
    assert found["trouble"] == ["GPU 0: GPU is lost"]


def test_a_card_cut_into_slices_is_its_slices(nvml: Any) -> None:
    nvml.is_a(
        "gpu NVIDIA A100-SXM4-40GB|40960|100|8.0|0",
        "slice NVIDIA A100-SXM4-40GB MIG 3g.20gb|19968|12",
        "slice NVIDIA A100-SXM4-40GB MIG 2g.10gb|9728|12",
    )
    gpus = detected(nvml)["gpus"]
    assert [gpu["mig"] for gpu in gpus] == [True, True]
    assert [gpu["total"] >> 20 for gpu in gpus] == [19968, 9728]
    assert all(gpu["capability"] == [8, 0] and gpu["uuid"].startswith("MIG-") for gpu in gpus)


def test_a_card_in_mig_mode_without_a_slice_cannot_be_used(nvml: Any) -> None:
    """As after a reboot, which the mode outlives and the slices do not: CUDA sees nothing of such a card."""
    nvml.is_a("gpu NVIDIA A100-SXM4-40GB|40960|100|8.0|0", "uncut", "gpu NVIDIA L4|23034|0|8.9|0")
    found = detected(nvml)
    assert [gpu["index"] for gpu in found["gpus"]] == [1]
    (trouble,) = found["trouble"]
    assert trouble == "GPU 0: it is in MIG mode and has no slice: make some (nvidia-smi mig), or end the mode"


@pytest.mark.parametrize(("visible", "expected"), [("1", [1]), ("1,0", [1, 0]), ("", []), ("0,7,1", [0])])
def test_only_visible_cards_count(nvml: Any, visible: str, expected: list[int]) -> None:
    nvml.is_a("gpu NVIDIA L4|23034|0|8.9|0", "gpu NVIDIA L4|23034|0|8.9|0")
    found = detected(nvml, CUDA_VISIBLE_DEVICES=visible)
    assert [gpu["index"] for gpu in found["gpus"]] == expected


SECOND = "GPU-00000000-0000-0000-0000-000000000002"


@pytest.mark.parametrize(
    ("visible", "expected", "is_missed"),
    [
        ("0,1", [1], True),
        ("1,0", [1], True),
        ("0", [], True),
        ("1", [1], False),
        ("0,7,1", [], True),
        (f"GPU-of-the-lost,{SECOND}", [1], True),
        (SECOND, [1], False),
    ],
)
def test_a_lost_card_among_the_visible_ones_does_not_hide_the_others(
    nvml: Any, visible: str, expected: list[int], is_missed: bool
) -> None:
    nvml.is_a("gpu NVIDIA L4|23034|0|8.9|15", "gpu NVIDIA L4|23034|0|8.9|0")
    found = detected(nvml, CUDA_VISIBLE_DEVICES=visible)
    assert [gpu["index"] for gpu in found["gpus"]] == expected
    assert found["absent"] == ["GPU 0: GPU is lost"] * is_missed


@pytest.mark.parametrize("visible", ["", "7", "GPU-nonesuch"])
def test_cards_that_are_all_hidden_are_said_to_be(nvml: Any, visible: str) -> None:
    nvml.is_a("gpu NVIDIA L4|23034|0|8.9|0")
    found = detected(nvml, CUDA_VISIBLE_DEVICES=visible)
    assert (found["gpus"], found["trouble"]) == ([], ["CUDA_VISIBLE_DEVICES hides every GPU that is there"])


@pytest.mark.skipif(detect().driver != "", reason="this machine has an NVIDIA driver")
def test_without_the_library_there_is_simply_no_card(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DETECT],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "no NVIDIA driver answers" in json.loads(done.stdout)["trouble"][0]
