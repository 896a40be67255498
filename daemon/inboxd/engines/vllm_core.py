"""One vLLM engine in a thread and an event loop of its own, so that neither its start nor its chatter stalls the rooms.

Nothing here is imported before it is used: vLLM alone takes ten seconds and more.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from inboxd.engines.vllm_worker import DAEMON_PID
from inboxd.errors import EngineLost

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

_starting = threading.Lock()
"""Engines start one after the other: each reads its GPU from the environment."""


@dataclass(slots=True)
class Gauge:
    """What the scheduler last said of itself; written by vLLM's own loop."""

    kv_used: float = 0.0  # share of the KV cache
    preemptions: int = 0


class Core:
    """A running engine. Its calls may be awaited from any event loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()
        self._numbers = itertools.count()
        self._calls: set[asyncio.Task[Any] | None] = set()
        self._engine: Any = None
        self.gauge = Gauge()

    async def start(self, arguments: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        """Build the engine; whatever vLLM raises comes through."""
        await self._run(self._start(arguments, environment))

    async def read(self, prompt: str, pixels: np.ndarray, sampling: Any) -> Any:
        """One page through the engine: vLLM's RequestOutput.

        Raises:
            EngineLost: the engine core died or was closed.
        """
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            return await self._run(self._generate(prompt, pixels, sampling))
        except EngineDeadError as error:
            raise EngineLost("vLLM's engine process died", "Its own log says why: vllm.log.") from error

    async def call(self, method: str) -> list[Any]:
        """Call a method of `InboxdWorker` in every worker.

        Raises:
            EngineLost: as `read`.
        """
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            answers: list[Any] = await self._run(self._engine.collective_rpc(method))
        except EngineDeadError as error:
            raise EngineLost("vLLM's engine process died", "Its own log says why: vllm.log.") from error
        return answers

    @property
    def kv_tokens(self) -> int:
        """Tokens that the KV cache really holds."""
        cache = self._engine.vllm_config.cache_config
        return int(cache.num_gpu_blocks * cache.block_size)

    def prompt(self, text: str) -> str:
        """The prompt for one image and perhaps a text, as the model's own chat template has it."""
        content = [{"type": "image"}, *([{"type": "text", "text": text}] if text else [])]
        prompt: str = self._engine.get_tokenizer().apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        return prompt

    def decode(self, tokens: list[int]) -> str:
        """The text of an answer's tokens."""
        text: str = self._engine.get_tokenizer().decode(tokens, skip_special_tokens=True)
        return text

    async def close(self) -> None:
        """Stop the engine, its processes and this thread; calls in flight raise EngineLost."""
        if self._thread.is_alive():
            await self._run(self._shut_down())
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(self._thread.join)
            self._loop.close()

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._noted(work), self._loop))
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                raise
            raise EngineLost("the engine was closed", "Start it again.") from None

    async def _noted(self, work: Coroutine[Any, Any, T]) -> T:
        me = asyncio.current_task()
        self._calls.add(me)
        try:
            return await work
        finally:
            self._calls.discard(me)

    async def _start(self, arguments: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        with _starting:
            before = {name: os.environ.get(name) for name in environment}
            os.environ.update(environment)
            try:
                self._engine = _build(arguments, self.gauge)
            finally:
                for name, value in before.items():
                    if value is None:
                        del os.environ[name]
                    else:
                        os.environ[name] = value

    async def _generate(self, prompt: str, pixels: np.ndarray, sampling: Any) -> Any:
        page = {"prompt": prompt, "multi_modal_data": {"image": pixels}}
        # Rendered first, because only that happens on the renderer's threads in every version of vLLM.
        (rendered,) = await self._engine.renderer.render_cmpl_async([page])
        answers = self._engine.generate(rendered, sampling, f"page-{next(self._numbers)}")
        return [answer async for answer in answers][-1]

    async def _shut_down(self) -> None:
        listener = getattr(self._engine, "output_handler", None)
        calls = self._calls - {asyncio.current_task()}
        # Our calls first: aborting a request needs vLLM's listener. Left alive, that would report a death.
        for tasks in (calls, [listener] if listener else []):
            here = [task for task in tasks if task is not None]
            for task in here:
                task.cancel()
            await asyncio.gather(*here, return_exceptions=True)
        if self._engine is not None:
            self._engine.shutdown()
            self._engine = None


_ALLOCATOR = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}


def environment(gpus: str | None, log: Path) -> dict[str, str]:
    """What vLLM reads from the environment while it starts; `gpus` as CUDA_VISIBLE_DEVICES wants them."""
    ours = {
        DAEMON_PID: str(os.getpid()),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "VLLM_LOGGING_CONFIG_PATH": str(_logging(log)),
        # The daemon has threads, and a fork of a process with threads may hang.
        "VLLM_WORKER_MULTIPROCESSING_METHOD": os.environ.get("VLLM_WORKER_MULTIPROCESSING_METHOD", "spawn"),
    }
    if find_spec("flashinfer") is None:  # else vLLM 0.26 dies for want of it
        ours["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    if gpus is not None and "," not in gpus and not os.environ.keys() & _ALLOCATOR:
        # Keeps memory from breaking into pieces (docs/recycling.md); memory that GPUs share can't be had in this form.
        ours["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    if gpus is not None:
        ours |= {"CUDA_VISIBLE_DEVICES": gpus, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return ours


def _logging(log: Path) -> Path:
    """A logging configuration for vLLM's processes: all to `log`, warnings to the daemon's stderr too."""
    file = log.with_suffix(".logging.json")
    handlers = {
        "file": {"class": "logging.FileHandler", "filename": str(log), "formatter": "plain", "level": "INFO"},
        "stderr": {"class": "logging.StreamHandler", "formatter": "plain", "level": "ERROR"},
    }
    configuration = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s [%(processName)s] %(message)s"}},
        "handlers": handlers,
        "loggers": {"vllm": {"handlers": [*handlers], "level": "INFO", "propagate": False}},
    }
    file.write_text(json.dumps(configuration))
    return file


def _build(arguments: Mapping[str, Any], gauge: Gauge) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.metrics.loggers import StatLoggerBase

    class Meter(StatLoggerBase):  # type: ignore[misc]  # vLLM ships no types
        """Keeps the scheduler's last figures; vLLM's own loggers stay off."""

        def __init__(self, *_: Any) -> None:
            pass

        def record(self, scheduler_stats: Any, iteration_stats: Any, *_: Any, **__: Any) -> None:
            if scheduler_stats is not None:
                gauge.kv_used = scheduler_stats.kv_cache_usage
            if iteration_stats is not None:
                gauge.preemptions += iteration_stats.num_preempted_reqs

        def log_engine_initialized(self) -> None:
            pass

    return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments, disable_log_stats=True), stat_loggers=[Meter])
