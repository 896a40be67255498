"""The vLLM engine and its process when vLLM fails at something: nobody waits for ever, and only that is lost.

vLLM itself is stood in for (vllm_stub); tests/vllm_cpu has the real one.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from structlog.testing import capture_logs

from inboxd.config import Engine, Settings
from inboxd.engines import vllm_plan, vllm_surroundings
from inboxd.engines import vllm_wire as wire
from inboxd.engines.vllm_local import VllmEngine
from inboxd.engines.vllm_plan import Plan
from inboxd.engines.vllm_process import VllmProcess
from inboxd.errors import EngineLost, EngineUnusable
from inboxd.gpus import Gpu
from inboxd.model import PageFailure, PageImage, PageText
from inboxd.profiles import GIB

HERE = Path(__file__).parent
TESTS = HERE.parent
PAGE = PageImage(np.zeros((28, 56, 3), np.uint8), 56, 28, ink=1.0)
WHITE = PageImage(np.full((28, 56, 3), 255, np.uint8), 56, 28, ink=0.0)


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder whose path is no longer than a person's: vLLM's sockets must fit below it."""
    return tmp_path_factory.mktemp("s")


@pytest.fixture
def plan(state: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
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
    (made,) = vllm_plan.plans(Settings(state=str(state), engine=engine))
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


def test_a_decoder_that_does_not_compile_runs_as_it_is(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start() -> None:
        with capture_logs() as logs:
            async with started(plan) as engine:
                assert (await engine.start()).details["compiled"] == "nothing"
                assert isinstance(await engine.read(PAGE), PageText)
        warnings = [entry for entry in logs if entry["log_level"] == "warning"]
        assert [entry["was"] for entry in warnings] == ["ALL", "DECODER"]
        assert all("RuntimeError: no such kernel" in entry["because"] for entry in warnings)

    monkeypatch.setenv("FAKE_VLLM_FAILS", "compiling")
    asyncio.run(start())


def test_one_that_loads_when_it_is_given_up_is_ended_without_patience(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not hear that the daemon hung up before it has loaded: SIGTERM would wait for nothing."""
    patience: list[float] = []
    begin, end = VllmProcess.start, VllmProcess._end
    launched = asyncio.Event()

    async def give_up() -> None:
        start = asyncio.create_task(VllmEngine(plan).start())
        await launched.wait()
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)

    def begun(process: VllmProcess, order: wire.Start) -> Coroutine[Any, Any, wire.Started | wire.Unusable]:
        launched.set()
        return begin(process, order)

    def ended(process: VllmProcess, seconds: float) -> None:
        patience.append(seconds)
        end(process, 0)

    monkeypatch.setattr(VllmProcess, "start", begun)
    monkeypatch.setattr(VllmProcess, "_end", ended)
    monkeypatch.setenv("FAKE_VLLM_FAILS", "loading")
    asyncio.run(give_up())
    assert patience == [0]


def test_a_process_that_cannot_be_had_is_no_defect(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr("inboxd.engines.vllm_process.subprocess.Popen", none)
    with pytest.raises(EngineUnusable, match="no process can be started: Cannot allocate memory"):
        asyncio.run(VllmEngine(plan).start())


def test_the_last_words_of_an_earlier_start_do_not_explain_this_one(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start() -> None:
        async with started(plan) as engine:
            (pid,) = set(engine.processes)
            with plan.log.open("a") as log:
                log.write("torch.OutOfMemoryError: CUDA out of memory.\n")
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(EngineLost):
                await engine.read(WHITE)
            monkeypatch.setenv("FAKE_VLLM_FAILS", "inboxd_pids")
            with pytest.raises(EngineUnusable, match=r"vLLM does not start: Exception: .*no inboxd_pids here"):
                await engine.start()
        assert "CUDA out of memory" in plan.log.read_text(), "it is kept for a person"

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
            assert isinstance(await engine.read(WHITE), PageText)

    monkeypatch.setenv("FAKE_VLLM_FAILS", "black")
    asyncio.run(live())


def test_an_engine_that_lives_and_reads_nothing_more_is_lost_and_can_be_started_again(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def live() -> None:
        async with started(plan) as engine:
            assert isinstance(await engine.read(WHITE), PageText)
            with pytest.raises(EngineLost, match=r"no longer reads its test page: .* the processor fell over"):
                await engine.read(PAGE)
            with pytest.raises(EngineLost):
                await engine.read(WHITE)
            await engine.start()
            assert isinstance(await engine.read(WHITE), PageText)

    monkeypatch.setenv("FAKE_VLLM_FAILS", "after-black")
    asyncio.run(live())


def test_one_that_reads_nothing_from_the_start_is_refused(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Though nobody expects this model to know the test page."""
    assert not plan.model.golden
    (tmp_path / "transformers-5.dist-info").mkdir()
    (tmp_path / "transformers-5.dist-info" / "METADATA").write_text("Name: transformers\nVersion: 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("FAKE_VLLM_FAILS", "pages")
    with pytest.raises(EngineUnusable, match=r"does not read the test page: .* the processor fell over"):
        asyncio.run(VllmEngine(plan).start())


def test_sockets_end_with_the_engine_and_those_of_a_killed_life_are_swept(plan: Plan) -> None:
    folder = plan.log.with_suffix(".sockets")
    folder.mkdir()
    (folder / "left by a killed life").touch()

    async def live() -> None:
        async with started(plan):
            (entry,) = folder.iterdir()
            assert entry.is_socket()
        assert not folder.exists()

    asyncio.run(live())


def test_a_state_folder_too_long_for_sockets_is_said_and_costs_no_start(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    far = replace(plan, log=plan.log.parent / ("far" * 30) / "vllm.log")
    temporary = tmp_path_factory.mktemp("t")
    monkeypatch.setenv("TMPDIR", str(temporary))

    async def live() -> None:
        with capture_logs() as logs:
            async with started(far) as engine:
                assert isinstance(await engine.read(WHITE), PageText)
        (said,) = (entry for entry in logs if entry["log_level"] == "warning")
        assert "too long" in said["event"] and said["most"] == 107
        assert said["bytes"] == len(str(far.log.with_suffix(".sockets"))) + 1 + 36

    asyncio.run(live())
    (entry,) = temporary.iterdir()
    assert entry.is_socket()


def test_the_longest_path_that_is_let_through_is_one_that_linux_takes(state: Path) -> None:
    room = 107 - len(f"{state}//vllm.sockets/{uuid4()}")
    for letters, fits in ((room, True), (room + 1, False)):
        log = state / ("x" * letters) / "vllm.log"
        log.parent.mkdir()
        assert (vllm_surroundings.empty_sockets(log) is not None) is fits
        with (
            socket.socket(socket.AF_UNIX) as bound,
            nullcontext() if fits else pytest.raises(OSError, match="too long"),
        ):
            bound.bind(str(log.with_suffix(".sockets") / str(uuid4())))


def test_a_start_that_is_given_up_looks_at_no_gpu_any_more(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it waits for memory that the driver frees, which may take long."""
    card = Gpu(0, "GPU-0", "NVIDIA A10", (8, 6), 22 * GIB, 0, 0)
    looks = 0

    def look(_: str) -> Gpu:
        nonlocal looks
        looks += 1
        loop.call_soon_threadsafe(seen.set)
        return replace(card, free=looks * 2**20)

    async def give_up() -> int:
        start = asyncio.create_task(VllmEngine(replace(plan, gpus=(card,))).start())
        await seen.wait()
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)
        return looks

    monkeypatch.setattr("inboxd.gpus.memory", look)
    with asyncio.Runner() as runner:
        loop, seen = runner.get_loop(), asyncio.Event()
        until_then = runner.run(give_up())
    assert looks == until_then


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
