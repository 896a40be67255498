"""Brings a model from Hugging Face's hub: resumes what was cut off, and checks every file against its hash."""

from __future__ import annotations

import hashlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from inboxd import __version__
from inboxd.errors import InboxdError

HUB = "https://huggingface.co"
_CHUNK = 2**20
_TIMEOUT_S = 60
_GOES_ON = "Run the command again: it goes on where it stopped."
_UNNEEDED = (".md", ".png", ".jpg", ".gguf", ".onnx", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".gitattributes")


class HubError(InboxdError):
    """A model can't be brought; `what` says why."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository; `sha256` for large files, `blob` (git's SHA-1 of it) for the others."""

    name: str
    size: int
    sha256: str | None
    blob: str | None

    def is_whole(self, path: Path) -> bool:
        """Does the file at `path` have this size and hash?"""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        if self.sha256 is None:
            return _digest(path, hashlib.sha1(b"blob %d\0" % self.size)) == self.blob
        return _digest(path, hashlib.sha256()) == self.sha256


@dataclass(frozen=True, slots=True)
class Revision:
    """A repository at one commit."""

    repository: str
    commit: str
    files: tuple[RemoteFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def look(repository: str, revision: str = "main") -> Revision:
    """What a model needs of a repository: weights, configuration and tokenizer.

    Raises:
        HubError: the hub doesn't answer, or has no such repository.
    """
    address = f"{_hub()}/api/models/{quote(repository)}/revision/{quote(revision, safe='')}?blobs=true"
    with _ask(address, repository) as answer:
        told: dict[str, Any] = json.load(answer)
    names = [file["rfilename"] for file in told["siblings"]]
    unneeded = _UNNEEDED if any(name.endswith(".safetensors") for name in names) else ()
    files = tuple(
        RemoteFile(
            name=file["rfilename"],
            size=file["size"],
            sha256=file["lfs"]["sha256"] if file.get("lfs") else None,
            blob=file.get("blobId"),
        )
        for file in told["siblings"]
        if not file["rfilename"].endswith(unneeded)
    )
    if any(".." in PurePosixPath(file.name).parts or file.name.startswith("/") for file in files):
        raise HubError(f"{repository} names a file outside its folder", "Don't use this repository.")
    return Revision(repository, told["sha"], files)


def bring(revision: Revision, folder: Path, on_progress: Callable[[int], None]) -> None:
    """Download what `folder` lacks, and leave each file there only once it is whole.

    `on_progress` is called with bytes, also for files that were there already. What is cut off resumes next time.

    Raises:
        HubError: the hub stops answering, or a file arrives damaged.
        OSError: the disk can't take it.
    """
    for file in revision.files:
        target = folder / file.name
        if file.is_whole(target):
            on_progress(file.size)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        for piece in _download(revision, file, part):
            on_progress(piece)
        if not file.is_whole(part):
            part.unlink()
            raise HubError(f"{file.name} arrived damaged: its hash is not the hub's", "Run the command again.")
        part.replace(target)


def _download(revision: Revision, file: RemoteFile, part: Path) -> Iterator[int]:
    """Append to `part` until it has the file's size; yields bytes, the ones already there first."""
    have = part.stat().st_size if part.is_file() else 0
    if have > file.size:
        part.unlink()
        have = 0
    yield have
    address = f"{_hub()}/{quote(revision.repository)}/resolve/{revision.commit}/{quote(file.name)}"
    while have < file.size:
        with _ask(address, revision.repository, start=have) as answer, part.open("ab") as out:
            if have and answer.status != 206:  # it sends all from the start
                out.truncate(0)
                yield -have
                have = 0
            before = have
            while piece := _piece(answer):
                out.write(piece)
                have += len(piece)
                yield len(piece)
            if have == before:
                raise HubError(f"the hub ends {file.name} early", _GOES_ON)
    part.touch()


def _piece(answer: Any) -> bytes:
    try:
        return bytes(answer.read(_CHUNK))
    except OSError as error:
        raise HubError(f"the connection broke off: {error}", _GOES_ON) from error


def _ask(address: str, repository: str, start: int = 0) -> Any:
    headers = {"User-Agent": f"inboxd/{__version__}"}
    if token := os.environ.get("HF_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        return urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code in (401, 403, 404):
            advice = "Check the name. If it is private or gated, set HF_TOKEN."
            raise HubError(f"{_hub()} has no {repository} for you (HTTP {error.code})", advice) from error
        raise HubError(f"{_hub()} answers HTTP {error.code}", "Try again later.") from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise HubError(
            f"{_hub()} does not answer: {reason}",
            "Fetch the model on a machine with a network, copy its folder, and set engine.model to it.",
        ) from error


def _hub() -> str:
    return os.environ.get("HF_ENDPOINT", HUB).rstrip("/")


def _digest(path: Path, digest: Any) -> str:
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    return str(digest.hexdigest())
