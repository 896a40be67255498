"""Settings and engines for the tiny checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from inboxd import config
from inboxd.config import Settings
from inboxd.engines import vllm_local
from inboxd.engines.protocol import Engine, Relievable
from inboxd.engines.vllm_local import VllmEngine

HERE = Path(__file__).parent
MODEL = HERE.parent / "tiny_lightonocr"


def settings(state: Path, profile: str = "tiny-lightonocr", model: Path = MODEL) -> Settings:
    """The engine part of a configuration for the tiny checkpoint."""
    engine = config.Engine(name="vllm", model=str(model), model_profile=profile, profiles=str(HERE / "profiles.toml"))
    return Settings(state=str(state), engine=engine)


def engine(state: Path, profile: str = "tiny-lightonocr", model: Path = MODEL) -> VllmEngine:
    """A fresh engine, not started; its log goes to the folder `state`."""
    made = vllm_local.create(settings(state, profile, model))
    assert isinstance(made, VllmEngine)
    return made


async def relieve(engine: Engine) -> str:
    """Ask the engine to give memory back."""
    assert isinstance(engine, Relievable)
    return await engine.relieve()


def copy(folder: Path) -> Path:
    """The checkpoint's folder, to be spoilt."""
    return Path(shutil.copytree(MODEL, folder / "model"))


def with_other_weights(folder: Path) -> Path:
    """A whole checkpoint that never learnt to read: its weights in another order."""
    spoilt = copy(folder)
    weights = spoilt / "model.safetensors"
    raw = weights.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    numbers = np.frombuffer(raw[start:], np.uint16)
    weights.write_bytes(raw[:start] + np.random.default_rng(0).permutation(numbers).tobytes())
    return spoilt
