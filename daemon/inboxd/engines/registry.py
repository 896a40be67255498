"""Finds an engine by its name and builds it; an engine's module is imported only when that engine is wanted.

Other packages add engines through the entry point group `inboxd.engines`: a name, and "module:factory", where
the factory takes the Settings and returns an Engine. Built-in names cannot be taken over.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from inboxd import gpus
from inboxd.errors import ConfigError, EngineLost, EngineUnusable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from inboxd.config import Settings
    from inboxd.engines.protocol import Engine
    from inboxd.gpus import Detected

GROUP = "inboxd.engines"
AUTO = "auto"
VLLM = "vllm"


@dataclass(frozen=True, slots=True)
class _Builtin:
    """Where an engine is, what it imports that may be missing, and what brings that."""

    target: str  # module:factory
    needs: tuple[str, ...] = ()
    remedy: str = ""


BUILTIN = {
    "null": _Builtin("inboxd.engines.null:create"),
    "cpu": _Builtin(
        "inboxd.engines.cpu:create",
        ("rapidocr", "onnxruntime", "cv2"),
        "Install inboxd again, as docs/systemd.md says.",
    ),
    VLLM: _Builtin(
        "inboxd.engines.vllm_local:create",
        ("vllm", "torch"),
        "pip install 'inboxd[vllm]'   (Linux with an NVIDIA GPU; several GB)",
    ),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """The engine that will read, and why this one, for the log and for `inboxd check`."""

    name: str
    why: str


def names() -> tuple[str, ...]:
    """Every engine that a configuration may name, without "auto"."""
    return (*BUILTIN, *sorted({point.name for point in entry_points(group=GROUP)} - BUILTIN.keys()))


def choose(settings: Settings) -> Choice:
    """The configured engine; for "auto" vllm where a GPU and the package are there, else cpu.

    Raises:
        ConfigError: no engine has that name, or tensor parallelism wants other GPUs than there are.
    """
    wanted = settings.engine.name
    if wanted not in (AUTO, *names()):
        raise ConfigError(f"[engine] name = {wanted!r} is no engine", f"Known are: {', '.join((AUTO, *names()))}.")
    if wanted not in (AUTO, VLLM):
        return Choice(wanted, "the configuration names it")
    detected = gpus.detect()
    if wanted == VLLM:
        choice = Choice(wanted, "the configuration names it")
    else:
        choice = _automatic(detected, find_spec("vllm") is not None)
    if choice.name == VLLM and detected.gpus:
        gpus.groups(detected.gpus, settings.engine.tensor_parallel)
    return choice


def create(settings: Settings, logs: Path | None = None) -> Engine:
    """Build the engine that `choose` names, not yet started. If it keeps a log, then in `logs`, or in the state folder.

    Raises:
        ConfigError: no engine has that name.
        EngineUnusable: a package that it imports is not installed.
    """
    name = choose(settings).name
    builtin = BUILTIN.get(name)
    if builtin is None:
        point = next(point for point in entry_points(group=GROUP) if point.name == name)
        origin = point.dist.name if point.dist else "unknown"
        return _factory(name, point.value, f"It comes from the package {origin}.")(settings)
    missing = [package for package in builtin.needs if find_spec(package) is None]
    if missing:
        raise EngineUnusable(f"the engine {name!r} needs {' and '.join(missing)}, not installed here", builtin.remedy)
    factory = _factory(name, builtin.target, builtin.remedy)
    return factory(settings, logs) if name == VLLM and logs is not None else factory(settings)


@contextmanager
def logs_aside() -> Iterator[Path]:
    """A folder for the log of an engine that a command starts: in the state folder lies the daemon's own.

    It goes with the command, unless the engine failed: the error may name the log.
    """
    folder = Path(tempfile.mkdtemp(prefix="inboxd-log-"))
    failed = False
    try:
        yield folder
    except (EngineUnusable, EngineLost):
        failed = True
        raise
    finally:
        if not failed or not any(folder.iterdir()):
            shutil.rmtree(folder)


def _automatic(detected: Detected, vllm: bool) -> Choice:
    if not detected.gpus:
        return Choice("cpu", "; ".join(detected.trouble))
    gpu = detected.gpus[0].name
    if not vllm:
        return Choice("cpu", f"{gpu} is there, but the package vllm is not: {BUILTIN[VLLM].remedy}")
    return Choice(VLLM, f"{gpu} and the package vllm are there")


def _factory(name: str, target: str, advice: str) -> Callable[..., Engine]:
    module, _, attribute = target.partition(":")
    try:
        factory: Callable[..., Engine] = getattr(import_module(module), attribute)
        return factory
    except (ImportError, AttributeError) as error:
        raise EngineUnusable(f"the engine {name!r} cannot be imported: {error}", advice) from error
