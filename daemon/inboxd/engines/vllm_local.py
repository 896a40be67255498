"""The GPU engine: a vision-language model in vLLM, used as a library; one engine process for each GPU."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import structlog

from inboxd import gpus
from inboxd.core import dialect
from inboxd.core.capacity import memory_fraction
from inboxd.engines import vllm_golden, vllm_start
from inboxd.engines.fleet import Fleet
from inboxd.engines.protocol import Limits
from inboxd.engines.vllm_core import Core, environment
from inboxd.engines.vllm_plan import Plan, plans
from inboxd.errors import EngineLost, EngineUnusable
from inboxd.gpus import Gpu
from inboxd.model import EngineInfo, MemorySample, PageFailure, PageImage, PageText

if TYPE_CHECKING:
    from inboxd.config import Settings
    from inboxd.engines.protocol import Engine

log = structlog.get_logger(__name__)


def create(settings: Settings) -> Engine:
    """One engine for each GPU, behind one that shares the pages out.

    Raises:
        ConfigError: a profile or model name means nothing, or tensor parallelism wants more GPUs than there are.
        EngineUnusable: no usable GPU, or the model is not on this machine.
    """
    engines = [VllmEngine(plan) for plan in plans(settings)]
    return engines[0] if len(engines) == 1 else Fleet(engines)


class VllmEngine:
    """An `Engine` round one vLLM engine core, which runs in a process of its own."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._limits = plan.limits()
        self._core: Core | None = None
        self._prompt = ""
        self._info: EngineInfo | None = None
        self._pids: list[int] = []
        self._lost = False

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def processes(self) -> tuple[int, ...]:
        """The ids of the engine's processes."""
        return tuple(self._pids)

    async def start(self) -> EngineInfo:
        """Load the model and read the golden page, alone and at full concurrency.

        A model that reads wrongly when compiled is tried once more layer by layer, with a warning.

        Raises:
            EngineUnusable: it can't run here; says why and what to do.
        """
        if self._core is not None and not self._lost and self._info is not None:
            return self._info
        after_death = self._lost
        await self.close()
        if not after_death:
            self._plan.log.parent.mkdir(parents=True, exist_ok=True)
            self._plan.log.write_bytes(b"")
        ready = await asyncio.to_thread(vllm_start.check, self._plan, after_death=after_death)
        modes = (True, False) if self._plan.profile.cuda_graphs else (False,)
        for compiled in modes:
            await self._load(ready, compiled=compiled)
            reason = await self._misread()
            if reason is None:
                break
            await self.close()
            if compiled:
                log.warning("the compiled model reads wrongly: trying it layer by layer, much slower", because=reason)
            else:
                raise EngineUnusable(
                    f"the model does not read the test page: {reason}",
                    f"{vllm_start.pair()} may not fit each other or this model; inboxd[vllm] installs a tested pair.",
                )
        self._info = self._described(compiled=compiled)
        return self._info

    async def read(self, page: PageImage, attempt: int = 1) -> PageText | PageFailure:
        """Read one page; a later attempt samples at the profile's next temperature.

        Raises:
            EngineLost: the engine died or was closed.
        """
        return await self._read(page, attempt, self._plan.model.max_tokens)

    async def memory(self) -> MemorySample | None:
        """The allocator's figures from the engine's process, the GPU's from NVML; None while it isn't running."""
        core = self._core
        if core is None or self._lost:
            return None
        try:
            ours = (await core.call("inboxd_memory"))[0]
        except EngineLost:
            return None
        sample = MemorySample(
            host_rss=sum(map(_resident, (os.getpid(), *self._pids))),
            kv_used=core.gauge.kv_used,
            preemptions=core.gauge.preemptions,
            **ours,
        )
        gpu = await asyncio.to_thread(gpus.memory, self._plan.gpus[0].uuid) if self._plan.gpus else None
        if gpu is None:
            return sample
        held = {holder.pid: holder.used or 0 for holder in gpu.holders}
        known = not held.keys().isdisjoint(self._pids)  # from within a container the driver's ids are not ours
        ours_held = sum(used for pid, used in held.items() if pid in self._pids)
        return replace(
            sample,
            gpu_total=gpu.total,
            gpu_used=gpu.total - gpu.free,
            gpu_reserved=gpu.reserved,
            gpu_ours=ours_held if known else None,
            gpu_others=sum(held.values()) - ours_held if known else None,
        )

    async def relieve(self) -> str:
        """Give the allocator's cached blocks back to the driver."""
        if self._core is None:
            return "the engine is not running"
        freed = sum(await self._core.call("inboxd_relieve"))
        return f"gave {freed / 2**20:.0f} MiB of cached GPU memory back"

    async def close(self) -> None:
        """Stop the engine and its processes; calls in flight raise EngineLost. Idempotent."""
        core, self._core, self._pids = self._core, None, []
        self._lost = False
        if core is not None:
            await core.close()

    async def _load(self, ready: tuple[Gpu, ...], *, compiled: bool) -> None:
        plan = self._plan
        visible = ",".join(gpu.uuid if gpu.mig else str(gpu.index) for gpu in ready) or None
        core = Core(f"vllm-{visible or 'cpu'}")
        try:
            await core.start(arguments(plan, ready, compiled=compiled), environment(visible, plan.log))
            self._pids = sorted({pid for pair in await core.call("inboxd_pids") for pid in pair} - {os.getpid()})
            if plan.profile.compile_vision and compiled:
                await core.call("inboxd_compile_vision")
            self._prompt = core.prompt(plan.model.prompt)
        except (RuntimeError, ValueError, OSError, ImportError, EngineLost) as error:
            await core.close()
            raise vllm_start.explained(error, plan) from error
        except BaseException:  # a cancelled start leaves no process behind
            await core.close()
            raise
        self._core = core
        self._limits = plan.limits(core.kv_tokens)

    async def _misread(self) -> str | None:
        """What is wrong with the golden page, read alone and then as often as pages will be in flight.

        Alone also where no model is expected to read it: the first page loads the model's processor, which vLLM
        else does on each of its threads at once, a minute long.
        """
        page = vllm_golden.page(self._limits.grid)
        for times in (1, self._limits.pages_in_flight):
            answers = await asyncio.gather(*(self._read(page, 1, vllm_golden.MAX_TOKENS) for _ in range(times)))
            if not self._plan.model.golden:
                return None
            wrong = [reason for answer in answers if (reason := vllm_golden.wrong(answer)) is not None]
            if wrong:
                return f"{len(wrong)} of {times} times {wrong[0]}" if times > 1 else wrong[0]
        return None

    async def _read(self, page: PageImage, attempt: int, max_tokens: int) -> PageText | PageFailure:
        core = self._core
        if core is None or self._lost:
            raise EngineLost("the engine is not running", "Start it again.")
        from vllm.v1.engine.exceptions import EngineGenerateError

        began = time.monotonic()
        pixels = _on_grid(page.pixels, self._limits.grid)
        try:
            output = await core.read(self._prompt, pixels, self._sampling(attempt, max_tokens))
        except EngineLost:
            self._lost = True
            raise
        except ValueError as error:  # what vLLM says of a prompt that it will not take
            return PageFailure(f"vLLM refuses the page: {error}", permanent=True)
        except EngineGenerateError as error:
            return PageFailure(f"vLLM failed on this page: {error.__cause__ or error}")
        return self._answer(core, page, output, time.monotonic() - began)

    def _sampling(self, attempt: int, max_tokens: int) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        model = self._plan.model
        return SamplingParams(
            temperature=model.temperature(attempt),
            top_p=model.top_p,
            max_tokens=max_tokens,
            logprobs=0,  # the chosen token's alone
            detokenize=False,  # once at the end costs less than at every step
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def _answer(self, core: Core, page: PageImage, output: Any, seconds: float) -> PageText | PageFailure:
        answer = output.outputs[0]
        if answer.finish_reason not in {"stop", "length", "repetition"}:
            return PageFailure(f"vLLM gave the page up: {answer.finish_reason}")
        tokens = list(answer.token_ids)
        logprob = answer.cumulative_logprob / len(tokens) if tokens else None
        confidence = None if logprob is None else math.exp(logprob)
        text, boxes = dialect.read(
            core.decode(tokens), self._plan.model.dialect, page.width, page.height, confidence or 0.0
        )
        return PageText(
            text=text,
            finish=answer.finish_reason,
            confidence=confidence,
            boxes=boxes,
            tokens_in=len(output.prompt_token_ids),
            tokens_out=len(tokens),
            first_token_s=output.metrics.first_token_latency,
            mean_logprob=logprob,
            read_s=seconds,
        )

    def _described(self, *, compiled: bool) -> EngineInfo:
        plan, core = self._plan, self._core
        assert core is not None
        return EngineInfo(
            engine="vllm",
            model=plan.model.name,
            version=vllm_start.version(),
            device=", ".join(gpu.name for gpu in plan.gpus) or "cpu",
            details={
                "profile": plan.profile.name,
                "dtype": plan.dtype,
                "kv_cache": f"{core.kv_tokens:,} tokens of {plan.profile.kv_dtype}",
                "pages_in_flight": str(self._limits.pages_in_flight),
                "compiled": "yes" if compiled else "no",
            },
        )


def arguments(plan: Plan, ready: tuple[Gpu, ...], *, compiled: bool) -> dict[str, Any]:
    """What vLLM's engine is built from; `ready` are its GPUs with their free memory of now."""
    profile = plan.profile
    chosen: dict[str, Any] = {
        "model": str(plan.folder),
        "load_format": plan.model.load_format,
        "dtype": plan.dtype,
        "seed": 0,
        "max_model_len": plan.model.context,
        "max_num_seqs": profile.seats,
        "max_num_batched_tokens": profile.batched_tokens,
        "kv_cache_dtype": profile.kv_dtype,
        "enforce_eager": not compiled,
        "limit_mm_per_prompt": {"image": 1},
        # No page comes twice: both caches off spares hashing every page for nothing.
        "mm_processor_cache_gb": 0,
        "enable_prefix_caching": False,
        "renderer_num_workers": max(2, min(8, (os.cpu_count() or 2) // 2)),
        "worker_extension_cls": "inboxd.engines.vllm_worker.InboxdWorker",
        "use_tqdm_on_load": False,
    }
    if ready:
        least = min(ready, key=lambda gpu: gpu.free / gpu.total)
        chosen["gpu_memory_utilization"] = memory_fraction(least.total, least.free, profile.memory_share)
        chosen["tensor_parallel_size"] = len(ready)
    return chosen


def _on_grid(pixels: np.ndarray, grid: int) -> np.ndarray:
    """Pixels as the model's processor takes them without a resize: padded white to its grid, and writable for torch."""
    height, width = pixels.shape[:2]
    rows, columns = -height % grid, -width % grid
    if rows or columns:
        pixels = np.pad(pixels, ((0, rows), (0, columns), (0, 0)), constant_values=255)
    return np.require(pixels, requirements=["C", "W"])


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError):  # it died just now
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    return 0
