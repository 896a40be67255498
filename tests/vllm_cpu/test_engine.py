"""The vLLM engine on a real model: what every engine must do, and what only this one can get wrong."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here: run `make test-vllm`, which brings its own")

import conformance
import pages
import tiny

from inboxd.engines import vllm_golden, vllm_local, vllm_plan
from inboxd.engines.protocol import Engine
from inboxd.engines.vllm_local import VllmEngine
from inboxd.errors import EngineLost, EngineUnusable
from inboxd.model import PageFailure, PageText


class TestVllm(conformance.Conformance):
    reads = False  # English print is all that the tiny checkpoint knows
    folders: pytest.TempPathFactory

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _folders(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.folders = tmp_path_factory

    @classmethod
    def make(cls) -> Engine:
        return tiny.engine(cls.folders.mktemp("s"))

    def test_a_blank_page_gives_empty_text(self, engine: Engine, loop: asyncio.Runner) -> None:
        """Not this model: it was never shown one. That it answers is all that can be asked."""
        assert isinstance(loop.run(engine.read(conformance.blank(300, 420))), PageText)

    def test_says_what_a_page_cost(self, engine: Engine, loop: asyncio.Runner) -> None:
        reading = loop.run(engine.read(vllm_golden.page(28)))
        assert isinstance(reading, PageText)
        assert reading.text == "\n".join(vllm_golden.LINES)
        assert reading.finish == "stop"
        assert reading.tokens_in == 20 * 10 + 19  # image tokens, and the prompt round them
        assert reading.tokens_out == len(reading.text) + 1  # one token a byte, and the end
        assert reading.first_token_s is not None and 0 < reading.first_token_s <= reading.read_s
        assert reading.mean_logprob is not None and -0.1 < reading.mean_logprob < 0
        assert reading.confidence is not None and 0.9 < reading.confidence < 1

    def test_fifty_pages_at_once_read_as_they_do_one_by_one(self, engine: Engine, loop: asyncio.Runner) -> None:
        truths = ["\n".join(pages.lines(seed)) for seed in range(50)]
        drawn = [pages.draw(truth.split("\n")) for truth in truths]

        async def together() -> list[object]:
            return await asyncio.gather(*(engine.read(page) for page in drawn))

        at_once = [reading.text for reading in loop.run(together()) if isinstance(reading, PageText)]
        one_by_one = [loop.run(engine.read(page)) for page in drawn]
        assert at_once == [reading.text for reading in one_by_one if isinstance(reading, PageText)]
        assert sum(map(pages.errors, at_once, truths)) / len(truths) <= 0.05

    def test_the_window_is_what_the_kv_cache_holds(self, engine: Engine, loop: asyncio.Runner) -> None:
        assert engine.limits.pages_in_flight == 8 + 1  # seats, and one ahead: 1 GiB of KV would hold many more
        assert "tokens" in loop.run(engine.start()).details["kv_cache"]

    def test_a_page_that_vllm_does_not_take_is_that_pages_failure(self, engine: Engine, loop: asyncio.Runner) -> None:
        failure = loop.run(engine.read(conformance.blank(60 * 28, 60 * 28)))
        assert isinstance(failure, PageFailure) and failure.permanent
        assert failure.reason.startswith("vLLM refuses the page: ")
        assert isinstance(loop.run(engine.read(vllm_golden.page(28))), PageText)

    def test_gives_memory_back_when_asked(self, engine: Engine, loop: asyncio.Runner) -> None:
        assert "MiB" in loop.run(tiny.relieve(engine))


@pytest.fixture
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder whose path is no longer than a person's: vLLM's sockets must fit below it."""
    return tmp_path_factory.mktemp("s")


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def test_pages_in_flight_are_lost_with_a_killed_engine_and_read_by_the_next(
    loop: asyncio.Runner, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its sockets are gone with it."""
    engine, sockets = tiny.engine(state), state / "vllm.sockets"
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    async def die_and_live() -> None:
        await engine.start()
        first = set(sockets.iterdir())
        assert first and all(entry.is_socket() for entry in first)
        reads = [asyncio.create_task(engine.read(vllm_golden.page(28))) for _ in range(engine.limits.pages_in_flight)]
        await asyncio.sleep(0.2)  # let them reach the engine: a page takes longer than that
        for pid in engine.processes:
            os.kill(pid, signal.SIGKILL)
        outcomes = await asyncio.gather(*reads, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [EngineLost] * len(reads)
        with pytest.raises(EngineLost):
            await engine.read(vllm_golden.page(28))
        assert await engine.memory() is None
        await engine.start()
        assert first.isdisjoint(sockets.iterdir())
        reading = await engine.read(vllm_golden.page(28))
        assert isinstance(reading, PageText) and vllm_golden.wrong(reading) is None
        await engine.close()

    loop.run(die_and_live())
    assert not sockets.exists()
    assert not any(entry.is_socket() for entry in tmp_path.iterdir())


def test_no_engine_outlives_its_daemon(state: Path) -> None:
    """Left alone, vLLM's engine core would hold the whole GPU for ever."""
    program = (
        f"import asyncio, sys; sys.path.insert(0, {str(tiny.HERE)!r}); import tiny; from pathlib import Path\n"
        "async def live():\n"
        f"    engine = tiny.engine(Path({str(state)!r}))\n"
        "    await engine.start()\n"
        "    print('processes', *engine.processes, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(live())"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        told = next((line.split() for line in daemon.stdout if line.startswith("processes")), [])
        daemon.kill()
    pids = [int(word) for word in told[1:]]
    assert len(pids) > 1, "it did not start"
    end = time.monotonic() + 60
    while any(map(alive, pids)):
        assert time.monotonic() < end, "the engine's processes are still there"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether that process still runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class TestOddWorker:
    """One engine for all of them: it takes a minute to start."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmEngine]:
        odd = {"worker_extension_cls": "odd.OddWorker"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join([str(tiny.HERE), os.environ.get("PYTHONPATH", "")]))
            patch.setattr(vllm_local, "arguments", lambda *given: vllm_plan.arguments(*given) | odd)
            engine = tiny.engine(tmp_path_factory.mktemp("s"))
            loop.run(engine.start())
        yield engine
        loop.run(engine.close())

    def test_one_that_fails_is_told_and_costs_no_page(self, engine: VllmEngine, loop: asyncio.Runner) -> None:
        """vLLM reports what a worker's method raises as a plain Exception."""
        assert loop.run(engine.memory()) is None
        assert "the worker fell over" in loop.run(tiny.relieve(engine))
        reading = loop.run(engine.read(vllm_golden.page(28)))
        assert isinstance(reading, PageText) and vllm_golden.wrong(reading) is None

    def test_log_probabilities_kept_in_it_are_those_that_vllm_sends(
        self, engine: VllmEngine, loop: asyncio.Runner
    ) -> None:
        kept = [reading.mean_logprob for reading in loop.run(read(engine))]
        loop.run(ask(engine, "inboxd_send_logprobs"))
        assert kept == [reading.mean_logprob for reading in loop.run(read(engine))]
        assert len([mean for mean in kept if mean is not None and mean < 0]) == DRAWN

    @pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++: torch compiles for processors with it")
    def test_a_compiled_vision_tower_reads_the_same_and_has_its_norms_in_it(
        self, engine: VllmEngine, loop: asyncio.Runner
    ) -> None:
        loop.run(ask(engine, "inboxd_wrap"))
        plain, norms = [reading.text for reading in loop.run(read(engine))], loop.run(ask(engine, "inboxd_norms"))
        blocks, before = loop.run(ask(engine, "inboxd_compile_vision")), loop.run(ask(engine, "inboxd_graphs"))
        assert norms == 2 * blocks + 1
        assert [reading.text for reading in loop.run(read(engine))] == plain
        assert len(plain) == DRAWN
        assert loop.run(ask(engine, "inboxd_norms")) == 1  # before the blocks
        # All blocks share their code: torch compiles no more than 8 copies, and the 16 other blocks would stay slow.
        assert 0 < loop.run(ask(engine, "inboxd_graphs")) - before < blocks


DRAWN = 4


async def read(engine: VllmEngine) -> list[PageText]:
    """What the engine reads from a few pages, one by one."""
    drawn = [pages.draw(pages.lines(seed)) for seed in range(DRAWN)]
    return [reading for page in drawn if isinstance(reading := await engine.read(page), PageText)]


async def ask(engine: VllmEngine, method: str) -> Any:
    """Call a method of its worker."""
    assert engine._process is not None
    return (await engine._process.call(method)).answers[0]


def test_a_page_that_runs_past_its_limit_says_so(loop: asyncio.Runner, state: Path) -> None:
    engine = tiny.engine(state, "tiny-lightonocr-cut")

    async def read() -> object:
        await engine.start()
        try:
            return await engine.read(vllm_golden.page(28))
        finally:
            await engine.close()

    reading = loop.run(read())
    assert isinstance(reading, PageText)
    assert (reading.finish, reading.tokens_out) == ("length", 20)


def test_a_model_that_cannot_read_the_golden_page_is_refused(loop: asyncio.Runner, tmp_path: Path, state: Path) -> None:
    broken = tiny.with_other_weights(tmp_path)
    with pytest.raises(EngineUnusable, match="does not read the test page"):
        loop.run(tiny.engine(state, model=broken).start())


def test_a_model_cut_short_is_refused_before_anything_is_loaded(loop: asyncio.Runner, tmp_path: Path) -> None:
    short = tiny.copy(tmp_path)
    weights = short / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5_000_000])
    with pytest.raises(EngineUnusable, match="cut short: 5,000,000 of"):
        loop.run(tiny.engine(tmp_path, model=short).start())


def test_a_failed_start_names_the_cause_that_the_engine_process_saw(
    loop: asyncio.Runner, tmp_path: Path, state: Path
) -> None:
    odd = tiny.copy(tmp_path)
    config = odd / "config.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": 4', '"num_hidden_layers": 5'))
    with pytest.raises(EngineUnusable, match=r"vLLM does not start: ValueError: .*layers\.4"):
        loop.run(tiny.engine(state, model=odd).start())
