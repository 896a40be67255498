"""What `inboxd check` says of GPUs, on machines that this one is not."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from inboxd import config
from inboxd.ledger import lock

A10, V100 = "gpu NVIDIA A10|23028|{}|8.6|0", "gpu Tesla V100-SXM2-32GB|32768|0|7.0|0"
STRANGER = "process 4194999|{}"

PROGRAM = """
import json, os
from dataclasses import asdict
from pathlib import Path
from inboxd import config
from inboxd.cli import check_machine
findings = check_machine.graphics(config.load(Path(os.environ["FILE"])))
print(json.dumps([asdict(finding) for finding in findings]))
"""


class Check:
    def __init__(self, nvml: Any, folder: Path) -> None:
        self._nvml = nvml
        self._file = folder / "c.toml"
        self.state = folder / "state"
        self.state.mkdir()

    def __call__(self, **engine: str) -> list[tuple[str, str, str, str]]:
        settings = "".join(f'{name} = "{value}"\n' for name, value in engine.items())
        self._file.write_text(f'state = "{self.state}"\n[engine]\n{settings}')
        done = self._nvml.python(PROGRAM, FILE=str(self._file))
        assert done.returncode == 0, done.stderr
        return [tuple(finding.values()) for finding in json.loads(done.stdout)]


@pytest.fixture
def check(nvml: Any, tmp_path: Path) -> Check:
    return Check(nvml, tmp_path)


@contextmanager
def running_daemon(check: Check) -> Iterator[int]:
    """We are the daemon; gives a process of ours, for an engine."""
    ledger = config.Settings(state=str(check.state)).ledger_path
    with lock.own(ledger), subprocess.Popen(["cat"], stdin=subprocess.PIPE) as engine:
        yield engine.pid


def test_a_card_that_others_hold_is_a_warning_that_names_them(nvml: Any, check: Check) -> None:
    nvml.is_a(A10.format(21000), STRANGER.format(20500))
    ((level, about, says, advice),) = check()
    assert (level, about) == ("warn", "GPU 0")
    assert "free" in says and "(pid 4194999): end that" in advice


def test_the_daemon_s_own_engine_is_not_to_be_ended(nvml: Any, check: Check) -> None:
    with running_daemon(check) as engine:
        for holder in (engine, os.getpid()):
            nvml.is_a(A10.format(21000), f"process {holder}|20500", STRANGER.format(100))
            ((level, _, says, advice),) = check()
            assert (level, advice) == ("ok", "")
            assert "the daemon's, profile a10" in says
        nvml.is_a(A10.format(21000), STRANGER.format(15000), f"process {engine}|5000")
        ((level, _, _, advice),) = check()
        assert level == "warn"
        assert "4194999" in advice and str(engine) not in advice
    nvml.is_a(A10.format(21000), f"process {os.getpid()}|20500")
    assert check()[0][0] == "warn", "without the lock it is no daemon"


def test_a_card_that_runs_by_a_row_of_one_s_own_is_no_failure(nvml: Any, check: Check, tmp_path: Path) -> None:
    nvml.is_a(V100)
    assert check(name="vllm")[0][0] == "fail"
    rows = tmp_path / "mine.toml"
    rows.write_text('[[gpu]]\nname = "old"\nmatch = "V100"\nmemory_gib = 1\nsource = "mine"\n')
    # The capability of this stand-in is one that vLLM has no kernels for, so only naming the row passes.
    assert check(name="vllm", profiles=str(rows), gpu_profile="old")[0][0] == "ok"
    ((level, _, says, _),) = check(name="vllm", gpu_profile="old")
    assert level == "fail" and "'old' is no GPU profile" in says
    ((level, _, says, _),) = check(name="vllm", profiles="/nowhere.toml")
    assert level == "fail" and "/nowhere.toml" in says


def test_a_row_of_one_s_own_goes_before_the_shipped_ones(nvml: Any, check: Check, tmp_path: Path) -> None:
    nvml.is_a(A10.format(500))
    rows = tmp_path / "mine.toml"
    rows.write_text('[[gpu]]\nname = "mine"\nmatch = "A10"\nmemory_gib = 1\nsource = "mine"\n')
    assert check(profiles=str(rows))[0][2].endswith("profile mine")


@pytest.mark.parametrize("name", ["cpu", "null"])
def test_an_engine_without_a_gpu_has_none_to_worry_about(nvml: Any, check: Check, name: str) -> None:
    nvml.is_a(A10.format(22000), V100)
    assert check(name=name) == []
