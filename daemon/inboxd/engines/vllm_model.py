"""Where a model's files lie on this machine, and whether they are whole."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

from inboxd.core.capacity import Shape
from inboxd.errors import ConfigError, EngineUnusable
from inboxd.profiles import Model, Profiles

_POINTER = b"version https://git-lfs"
_HEADER_LIMIT = 100 * 2**20  # safetensors' own


def fetched(models: Path, repository: str) -> Path:
    """Where `inboxd fetch-model` puts a repository."""
    return models / repository.replace("/", "--")


def locate(wanted: str | None, profile: str | None, profiles: Profiles, models: Path) -> tuple[Model, Path]:
    """The profile and the folder of the model that the settings ask for.

    `wanted` is a profile's name, a folder or a Hugging Face id; `profile` names the row to use with a folder or
    id that has none of its own; `models` is where fetched models lie.

    Raises:
        ConfigError: a name that means nothing.
        EngineUnusable: the files are not on this machine; says how to bring them.
    """
    wanted = wanted or profiles.default_model.name
    chosen = _row(profile, profiles)
    row = profiles.model(wanted)
    if row is None and (folder := _first([Path(wanted)], wanted)):
        return chosen or profiles.model_of(_architecture(folder)), folder
    if row is not None and not row.repository:
        raise ConfigError(
            f"engine.model = {wanted!r}: that profile names no files",
            f"Set engine.model to the model's folder or Hugging Face id, and engine.model_profile = {wanted!r}.",
        )
    repository = row.repository if row else wanted
    if "/" not in repository or wanted.startswith(("/", ".")):
        names = ", ".join(row.name for row in profiles.models if row.repository)
        raise ConfigError(
            f"engine.model = {wanted!r} is no model profile, no folder on this machine and no Hugging Face id",
            f"Profiles are: {names}.",
        )
    if folder := _first(_places(models, repository), repository):
        return chosen or row or profiles.model_of(_architecture(folder)), folder
    raise EngineUnusable(
        f"the model {repository} is not on this machine: it is neither in {models} nor in Hugging Face's cache",
        f"Bring it with: inboxd fetch-model {wanted}\nor set engine.model to a folder that holds it.",
    )


def trouble(folder: Path) -> str | None:
    """What is missing, cut short or closed to us in a model folder, for a person; None if it is whole."""
    try:
        return _missing(folder)
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"


def _missing(folder: Path) -> str | None:
    for name in ("config.json", "tokenizer_config.json", "preprocessor_config.json"):
        if not (folder / name).is_file():
            alternative = name == "preprocessor_config.json" and (folder / "processor_config.json").is_file()
            if not alternative:
                return f"{name} is missing"
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            weights = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        except (ValueError, LookupError, TypeError, AttributeError):
            return f"{index.name} is cut short or damaged"
    else:
        weights = sorted(path.name for path in folder.glob("*.safetensors"))
    if not weights:
        return "there are no weights (*.safetensors)"
    for name in weights:
        if (reason := _cut_short(folder / name)) is not None:
            return f"{name} {reason}"
    return None


def shape(folder: Path) -> Shape | None:
    """The model's sizes from its config.json; None where it has not LightOnOCR's parts."""
    config = _config(folder)
    try:
        vision, text = config["vision_config"], config["text_config"]
        return Shape(
            patch=vision["patch_size"],
            merge=config["spatial_merge_size"],
            vision_layers=vision["num_hidden_layers"],
            vision_hidden=vision["hidden_size"],
            vision_mlp=vision["intermediate_size"],
            layers=text["num_hidden_layers"],
            hidden=text["hidden_size"],
            heads=text["num_attention_heads"],
            kv_heads=text["num_key_value_heads"],
            head_dim=text["head_dim"],
            mlp=text["intermediate_size"],
            vocab=text["vocab_size"],
        )
    except (KeyError, TypeError):
        return None


def _row(name: str | None, profiles: Profiles) -> Model | None:
    if name is None:
        return None
    row = profiles.model(name)
    if row is None:
        names = ", ".join(row.name for row in profiles.models)
        raise ConfigError(f"engine.model_profile = {name!r} is no model profile", f"There are: {names}.")
    return row


def _places(models: Path, repository: str) -> list[Path]:
    """Our own folder first, then the newest snapshot in Hugging Face's cache."""
    told = os.environ.get
    home = told("HF_HOME") or f"{told('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    hub = told("HF_HUB_CACHE") or told("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"  # as huggingface_hub looks for it
    folder = Path(os.path.expandvars(hub)).expanduser() / f"models--{repository.replace('/', '--')}"
    newest = sorted((folder / "snapshots").glob("*"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [fetched(models, repository), *newest]


def _first(places: list[Path], name: str) -> Path | None:
    """The first folder that is there, and rather one that is whole.

    Raises:
        EngineUnusable: there is none, and one of them can't be looked into.
    """
    found, closed = [], None
    for folder in places:
        try:
            if folder.is_dir():
                found.append(folder)
        except PermissionError as error:
            closed = f"{folder}: {error.strerror}"
    if not found and closed is not None:
        raise EngineUnusable(
            f"whether the model {name} is on this machine can't be seen: {closed}",
            "Run this as the daemon's user or as root: sudo inboxd ...\nor set engine.model to a folder open to you.",
        )
    return next((folder for folder in found if trouble(folder) is None), found[0] if found else None)


def _architecture(folder: Path) -> str:
    return next(iter(_config(folder).get("architectures", [])), "")


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        config: Any = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise EngineUnusable(f"{folder} is no model folder: config.json is missing", "Set engine.model.") from error
    except OSError as error:
        raise EngineUnusable(f"{path} cannot be read: {error.strerror}", "Open it to the daemon's user.") from error
    except ValueError as error:
        raise EngineUnusable(f"{path} is damaged: {error}", "Fetch the model again.") from error
    if not isinstance(config, dict):
        raise EngineUnusable(f"{path} is damaged: it holds no table", "Fetch the model again.")
    return config


def _cut_short(path: Path) -> str | None:
    """A safetensors file says in its first bytes how long it must be."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_POINTER))
            if start == _POINTER:
                return "is a git-lfs pointer, not the weights"
            (length,) = struct.unpack("<Q", start[:8])
            if length > _HEADER_LIMIT:
                return "is no safetensors file"
            file.seek(8)
            tensors = json.loads(file.read(length))
        end = max((entry["data_offsets"][1] for name, entry in tensors.items() if name != "__metadata__"), default=0)
        have, need = path.stat().st_size, int(8 + length + end)
    except FileNotFoundError:
        return "is missing"
    except (struct.error, ValueError, LookupError, TypeError, AttributeError):
        return "is cut short or damaged"
    return f"is cut short: {have:,} of {need:,} bytes" if have < need else None
