"""The vLLM engine and its process when vLLM fails at something: nobody waits for ever, and only that is lost.

vLLM itself is stood in for (vllm_stub); tests/vllm_cpu has the real one.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from inboxd.config import Engine, Settings
from inboxd.engines import vllm_plan
from inboxd.engines.vllm_local import VllmEngine
from inboxd.engines.vllm_plan import Plan
from inboxd.errors import EngineLost, EngineUnusable
from inboxd.model import PageFailure, PageImage, PageText

HERE = Path(__file__).parent
TESTS = HERE.parent
PAGE = PageImage(np.zeros((28, 56, 3), np.uint8), 56, 28, ink=1.0)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The tiny model as on an H200, whose profile has the vision tower compiled."""
    path = [str(HERE / "vllm_stub"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setattr(vllm_plan, "cpu_build", lambda: True)
    engine = Engine(
        name="vllm",
        model=str(TESTS / "tiny_lightonocr"),
        model_profile="tiny-lightonocr-cut",
        gpu_profile="h200",
        profiles=str(TESTS / "vllm_cpu" / "profiles.toml"),
    )
    (made,) = vllm_plan.plans(Settings(state=str(tmp_path), engine=engine))
    return made


@asynccontextmanager
async def started(plan: Plan) -> AsyncIterator[VllmEngine]:
    engine = VllmEngine(plan)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


def test_a_vision_tower_that_does_not_compile_is_left_as_it_was(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start() -> None:
        with capture_logs() as logs:
            async with started(plan) as engine:
                assert (await engine.start()).details["compiled"] == "decoder"
                assert isinstance(await engine.read(PAGE), PageText)
        (warning,) = (entry for entry in logs if entry["log_level"] == "warning")
        assert (warning["event"], warning["was"]) == (
            "the compiled model does not work: trying with less compiled",
            "ALL",
        )
        assert "no inboxd_compile_vision here" in warning["because"]

    monkeypatch.setenv("FAKE_VLLM_FAILS", "inboxd_compile_vision")
    asyncio.run(start())


def test_one_that_compiles_is_compiled(plan: Plan) -> None:
    async def start() -> None:
        async with started(plan) as engine:
            assert (await engine.start()).details["compiled"] == "decoder and vision tower"

    asyncio.run(start())


def test_memory_that_cannot_be_told_or_given_back_costs_no_page(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    async def live() -> None:
        async with started(plan) as engine:
            assert await engine.memory() is None
            assert (await engine.relieve()).startswith(
                "gave no GPU memory back: inboxd_relieve: vLLM failed: Exception"
            )
            assert isinstance(await engine.read(PAGE), PageText)

    monkeypatch.setenv("FAKE_VLLM_FAILS", "inboxd_memory inboxd_relieve")
    asyncio.run(live())


def test_an_engine_that_died_gives_nothing_back(plan: Plan) -> None:
    async def live() -> None:
        async with started(plan) as engine:
            sample = await engine.memory()
            assert sample is not None and sample.torch_reserved == 2
            assert await engine.relieve() == "gave 3 MiB of cached GPU memory back"
            (pid,) = set(engine.processes)
            os.kill(pid, signal.SIGKILL)
            assert await engine.relieve() == "gave no GPU memory back: the vLLM process died"
            assert await engine.memory() is None
            with pytest.raises(EngineLost):
                await engine.read(PAGE)

    asyncio.run(live())


def test_what_nobody_foresaw_of_a_page_is_its_failure(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    async def live() -> None:
        async with started(plan) as engine:
            failure = PageFailure("vLLM failed: RuntimeError: the processor fell over")
            assert await asyncio.gather(*(engine.read(PAGE) for _ in range(3))) == [failure] * 3

    monkeypatch.setenv("FAKE_VLLM_FAILS", "render")
    asyncio.run(live())


def test_a_log_that_belongs_to_somebody_else_is_named(plan: Plan) -> None:
    for path in (plan.log, plan.log.with_suffix(".logging.json")):
        path.mkdir()  # which root, too, cannot write
        with pytest.raises(EngineUnusable, match=f"{path}: Is a directory") as refused:
            asyncio.run(VllmEngine(plan).start())
        assert "the user that the daemon runs as" in refused.value.advice
        path.rmdir()


def test_what_nobody_foresaw_of_a_start_is_its_reason(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start() -> None:
        with pytest.raises(EngineUnusable, match=r"vLLM does not start: Exception: .*no inboxd_pids here"):
            await VllmEngine(plan).start()

    monkeypatch.setenv("FAKE_VLLM_FAILS", "inboxd_pids")
    asyncio.run(start())
