"""The GPU engine: a vision-language model in vLLM, used as a library; one engine process for each GPU."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import structlog

from inboxd import gpus
from inboxd.core import dialect
from inboxd.engines import vllm_golden, vllm_start
from inboxd.engines import vllm_wire as wire
from inboxd.engines.fleet import Fleet
from inboxd.engines.protocol import Limits
from inboxd.engines.vllm_plan import Plan, Way, arguments, plans
from inboxd.engines.vllm_process import CallFailed, VllmProcess
from inboxd.engines.vllm_surroundings import empty_sockets, environment, open_log
from inboxd.errors import EngineLost, EngineUnusable
from inboxd.gpus import Gpu
from inboxd.model import EngineInfo, MemorySample, PageFailure, PageImage, PageText

if TYPE_CHECKING:
    from inboxd.config import Settings
    from inboxd.engines.protocol import Engine

HANGS = 0.9
"""Share of the page's time after which one engine of several hangs: at all of it, they would all count as lost."""

log = structlog.get_logger(__name__)


def create(settings: Settings, logs: Path | None = None) -> Engine:
    """One engine for each GPU, behind one that shares the pages out where there are several, or should be.

    What vLLM says is written to the folder `logs`, or to the state folder.

    Raises:
        ConfigError: a profile or model name means nothing, or tensor parallelism wants more GPUs than there are.
        EngineUnusable: no usable GPU, or the model is not on this machine.
    """
    found = gpus.detect()
    engines = {plan.name: VllmEngine(plan) for plan in plans(settings, found, logs)}
    absent = found.absent if found.gpus else ()
    if len(engines) + len(absent) == 1:
        return next(iter(engines.values()))
    return Fleet(engines, HANGS * settings.engine.page_timeout, absent)


class VllmEngine:
    """An `Engine` round one vLLM, which runs in processes of its own."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._limits = plan.limits()
        self._process: VllmProcess | None = None
        self._info: EngineInfo | None = None
        self._pids: tuple[int, ...] = ()
        self._lost = False

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def processes(self) -> tuple[int, ...]:
        """The ids of the engine's processes."""
        return self._pids

    async def start(self) -> EngineInfo:
        """Load the model and read the golden page, alone and at full concurrency.

        A model that can't be compiled, reads wrongly then or dies of it is tried with less compiled, with a warning.

        Raises:
            EngineUnusable: it can't run here; says why and what to do.
        """
        if self._process is not None and not self._lost and self._info is not None:
            return self._info
        after_death = self._lost
        await self.close()
        ready = await vllm_start.check(self._plan, after_death=after_death)
        ways, reason = self._plan.ways, ""
        for way in ways:
            open_log(self._plan.log, keep=after_death or way is not ways[0])
            try:
                info = await self._load(ready, way)
                reason = await self._trouble(way)
            except EngineUnusable as error:
                if way is ways[-1] or not vllm_start.could_not_compile(self._plan.log):
                    raise
                reason = error.what
            if not reason:
                self._info = info
                log.info("vLLM is tuned", **info.details)
                return info
            await self.close()
            if way is not ways[-1]:
                log.warning("the compiled model does not work: trying with less compiled", was=way.name, because=reason)
        raise EngineUnusable(f"the model does not read the test page: {reason}", vllm_start.remedy(reason))

    async def read(self, page: PageImage, attempt: int = 1) -> PageText | PageFailure:
        """Read one page; a later attempt samples at the profile's next temperature.

        A failure is the page's own only if the golden page is read after it. vLLM may live on and read nothing.

        Raises:
            EngineLost: the engine died or was closed, or fails at the golden page too.
        """
        answer = await self._read(page, attempt, self._plan.model.max_tokens)
        if isinstance(answer, PageFailure) and (why := await self._misread(1)) is not None:
            self._lost = True
            raise EngineLost(f"vLLM runs, but no longer reads its test page: {why}", "Start it again.")
        return answer

    async def memory(self) -> MemorySample | None:
        """The allocator's figures from the engine's process, the GPU's from NVML; None where the process has none."""
        if self._process is None or self._lost:
            return None
        try:
            called = await self._process.call("inboxd_memory")
        except (EngineLost, CallFailed) as error:
            log.warning("vLLM does not tell of its memory", because=error.what)
            return None
        sample = MemorySample(kv_used=called.kv_used, preemptions=called.preemptions, **called.answers[0])
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
        if self._process is None:
            return "the engine is not running"
        try:
            freed = sum((await self._process.call("inboxd_relieve")).answers)
        except (EngineLost, CallFailed) as error:
            return f"gave no GPU memory back: {error.what}"
        return f"gave {freed / 2**20:.0f} MiB of cached GPU memory back"

    async def close(self) -> None:
        """Stop the engine and its processes; calls in flight raise EngineLost. Idempotent."""
        process, self._process, self._pids = self._process, None, ()
        if process is not None:
            await process.close()

    async def _load(self, ready: tuple[Gpu, ...], way: Way) -> EngineInfo:
        plan = self._plan
        visible = ",".join(gpu.uuid if gpu.mig else str(gpu.index) for gpu in ready) or None
        sockets = empty_sockets(plan.log)
        process = await VllmProcess.launch(environment(visible, plan.log, sockets), sockets)
        try:
            reply = await process.start(wire.Start(arguments(plan, ready, way)))
            if isinstance(reply, wire.Unusable):
                raise vllm_start.explained(reply.error, plan)
        except EngineLost as error:
            await process.close()
            raise vllm_start.explained(error.what, plan) from error
        except BaseException:  # a cancelled start, too, leaves no process behind
            await process.close()
            raise
        self._process, self._pids, self._lost = process, reply.pids, False
        self._limits = plan.limits(reply.kv_tokens)
        return vllm_start.described(plan, way, reply.kv_tokens, self._limits.pages_in_flight)

    async def _trouble(self, way: Way) -> str:
        """What is wrong with what the loaded engine reads; empty if nothing is."""
        assert self._process is not None
        try:
            if way is Way.ALL:
                await self._process.call("inboxd_compile_vision")
            reason = await self._misread(1)
            if reason is None and self._plan.model.golden:
                reason = await self._misread(self._limits.pages_in_flight)
            return reason or ""
        except CallFailed as failed:
            return failed.what
        except EngineLost as lost:
            return f"vLLM died: {words}" if (words := vllm_start.last_words(self._plan.log)) else lost.what

    async def _misread(self, times: int) -> str | None:
        """What is wrong with the golden page, read so many `times` at once; None if nothing is."""
        model = self._plan.model
        return await vllm_golden.misread(
            lambda page: self._read(page, 1, vllm_golden.MAX_TOKENS), model.grid, times, known=model.golden
        )

    async def _read(self, page: PageImage, attempt: int, max_tokens: int) -> PageText | PageFailure:
        if self._process is None or self._lost:
            raise EngineLost("the engine is not running", "Start it again.")
        began = time.monotonic()
        pixels = _on_grid(page.pixels, self._limits.grid)
        try:
            reply = await self._process.read(self._order(page, pixels, attempt, max_tokens), pixels)
        except EngineLost:
            self._lost = True
            raise
        if isinstance(reply, wire.Failed):
            return PageFailure(reply.reason, permanent=reply.refused)
        return self._text(page, reply, time.monotonic() - began)

    def _order(self, page: PageImage, pixels: np.ndarray, attempt: int, max_tokens: int) -> wire.Read:
        model = self._plan.model
        return wire.Read(
            number=0,  # the process's to give
            height=pixels.shape[0],
            width=pixels.shape[1],
            prompt=model.instruction(page.language),
            temperature=model.temperature(attempt),
            top_p=model.top_p,
            max_tokens=max_tokens,
        )

    def _text(self, page: PageImage, answer: wire.Answer, seconds: float) -> PageText:
        mean = answer.logprob / answer.tokens_out if answer.logprob is not None and answer.tokens_out else None
        confidence = None if mean is None else math.exp(mean)
        text, boxes = dialect.read(answer.text, self._plan.model.dialect, page.width, page.height, confidence or 0.0)
        return PageText(
            text=text,
            finish=answer.finish,
            confidence=confidence,
            boxes=boxes,
            tokens_in=answer.tokens_in,
            tokens_out=answer.tokens_out,
            first_token_s=answer.first_token_s,
            mean_logprob=mean,
            read_s=seconds,
        )


def _on_grid(pixels: np.ndarray, grid: int) -> np.ndarray:
    """Pixels as the model's processor takes them without a resize: padded white to its grid."""
    height, width = pixels.shape[:2]
    rows, columns = -height % grid, -width % grid
    return np.pad(pixels, ((0, rows), (0, columns), (0, 0)), constant_values=255) if rows or columns else pixels
