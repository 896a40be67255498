"""GPU and model profiles: rows of etc/*.toml, picked by what is detected; no name of a card or model stands in code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from inboxd import resources
from inboxd.core.capacity import Card, Shape
from inboxd.errors import ConfigError, EngineUnusable
from inboxd.gpus import Gpu

GIB = 2**30
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Dialect = Literal["plain", "lightonocr", "lightonocr-bbox", "lightonocr-grounding"]

OLDEST = (7, 5)
"""Compute capability below which vLLM has no kernels."""


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A row of a profile file."""


class Model(_Row, frozen=True, kw_only=True):
    """How a model wants its pages, its sampling and its prompt; etc/models.toml explains each field."""

    name: str
    repository: str = ""
    architecture: str = ""
    longest_edge: Count
    grid: Count
    temperatures: Annotated[tuple[Annotated[float, msgspec.Meta(ge=0)], ...], msgspec.Meta(min_length=1)]
    top_p: Share = 1.0
    max_tokens: Count
    context: Count
    typical: Count
    dialect: Dialect
    prompt: str = ""
    languages: bool = False
    shape: str = ""
    golden: bool = True
    dtype: str = ""  # overrides the GPU's
    load_format: str = "auto"  # "dummy": random weights, for benchmarks

    def instruction(self, language: str) -> str:
        """The text beside a page's image; names the page's `language` to a model that may be told."""
        return f"{self.prompt} The page is in {language}." if language and self.languages else self.prompt

    def temperature(self, attempt: int) -> float:
        """For the n-th reading of a page, from 1."""
        return self.temperatures[min(attempt, len(self.temperatures)) - 1]

    @property
    def deterministic(self) -> bool:
        """Would reading a page again give the same text?"""
        return not any(self.temperatures)


class Profile(_Row, frozen=True, kw_only=True):
    """How the engine runs on a card; etc/gpus.toml explains each field."""

    name: str
    match: str = ""
    memory_gib: float
    below_gib: float = float("inf")
    tflops: float = 0.0
    tbps: float = 0.0
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    memory_share: Share = 0.9
    headroom_gib: float = 6.5
    batched_tokens: Count = 8192
    seats: Count = 1
    kv_dtype: str = "auto"
    cuda_graphs: bool = True
    compile_vision: bool = False
    batch_wait_s: Annotated[float, msgspec.Meta(ge=0)] = 0.02
    refused: str = ""
    source: str

    def __post_init__(self) -> None:
        try:
            re.compile(self.match)
        except re.error as error:
            raise ValueError(f"{self.name}: match = {self.match!r} is no regular expression: {error}") from error

    @property
    def card(self) -> Card | None:
        """Peak figures, where the row has them."""
        return Card(self.tflops, self.tbps) if self.tflops and self.tbps else None

    @property
    def kv_width(self) -> float:
        """Bytes of one number in the KV cache."""
        return 1 if self.kv_dtype.startswith("fp8") else 4 if self.dtype == "float32" else 2


_Named = TypeVar("_Named", Model, Profile)


class _File(_Row, frozen=True, kw_only=True):
    model: tuple[Model, ...] = ()
    gpu: tuple[Profile, ...] = ()
    shape: dict[str, Shape] = {}


@dataclass(frozen=True, slots=True)
class Profiles:
    """All rows, a person's own before the shipped ones."""

    models: tuple[Model, ...]
    gpus: tuple[Profile, ...]
    shapes: dict[str, Shape]

    @property
    def default_model(self) -> Model:
        """The first model that ships."""
        return self.models[0]

    def model(self, name: str) -> Model | None:
        """The model row of that name or Hugging Face id."""
        return next((row for row in self.models if name and name in (row.name, row.repository)), None)

    def model_of(self, architecture: str) -> Model:
        """The row for a model folder whose config.json names that class: `generic` where no row does."""
        for row in self.models:
            if row.architecture == architecture:
                return row
        return next(row for row in self.models if row.name == "generic")

    def gpu(self, name: str) -> Profile:
        """The GPU row of that name.

        Raises:
            ConfigError: there is none.
        """
        for row in self.gpus:
            if row.name == name:
                return row
        names = ", ".join(row.name for row in self.gpus)
        raise ConfigError(f"engine.gpu_profile = {name!r} is no GPU profile", f"There are: {names}.")

    def gpu_for(self, gpu: Gpu) -> Profile:
        """The first row whose name pattern and memory range fit; patterns go before the rules by memory.

        Raises:
            EngineUnusable: vLLM cannot run on that card; says why.
        """
        size = gpu.total / GIB
        rows = [row for row in self.gpus if row.memory_gib <= size < row.below_gib]
        named = [row for row in rows if row.match and re.search(row.match, gpu.name)]
        row = (named or [row for row in rows if not row.match])[0]
        refused = row.refused
        if not refused and gpu.capability < OLDEST:
            refused = f"compute capability {_dotted(gpu.capability)}: vLLM needs {_dotted(OLDEST)}"
        if refused:
            raise EngineUnusable(
                f"GPU {gpu.index} ({gpu.name}) cannot run vLLM: {refused}",
                'Use another GPU, or engine.name = "cpu".',
            )
        return row if gpu.capability >= (8, 0) else msgspec.structs.replace(row, dtype="float16")


def load(own: str | None = None) -> Profiles:
    """The shipped rows, with those of the file `own` before them.

    Raises:
        ConfigError: a file is missing, not TOML, or has a field that is unknown, malformed or impossible.
    """
    shipped = resources.folder("etc")
    files = [_read(shipped / "models.toml"), _read(shipped / "gpus.toml")]
    if own is not None:
        files.insert(0, _read(Path(own)))
    models = _first_of_each([row for file in files for row in file.model])
    if own is not None:  # the default model stays the shipped one unless a person replaced it
        default = files[1].model[0].name
        models.sort(key=lambda row: row.name != default)
    return Profiles(
        models=tuple(models),
        gpus=tuple(_first_of_each([row for file in files for row in file.gpu])),
        shapes={name: shape for file in reversed(files) for name, shape in file.shape.items()},
    )


def _first_of_each(rows: list[_Named]) -> list[_Named]:
    seen: dict[str, _Named] = {}
    for row in rows:
        seen.setdefault(row.name, row)
    return list(seen.values())


def _read(path: Path) -> _File:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise ConfigError(f"cannot read the profiles {path}: {error.strerror}", "Mend engine.profiles.") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f"{path}: {error}", "etc/models.toml and etc/gpus.toml explain each field.") from error


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
