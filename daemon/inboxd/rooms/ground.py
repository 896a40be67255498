"""What stands in a folder under the names that the outputs of one original may have, and what of it is ours."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from itertools import islice

from inboxd.core.naming import candidates
from inboxd.formats import json, sha256
from inboxd.rooms.folders import Folder

_PROOF_MAX = 256 * 1024**2
"""Bytes: what is larger is not read to learn whether it is ours."""
_PROOFS = 8
"""How many JSON files beside the original are asked for a proof."""
_NOT_OURS = {errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO, errno.ENOENT}


class Stands(Enum):
    """What has a name now."""

    NOTHING = auto()
    SAME = auto()  # a whole file with exactly the content that we have for it
    OURS = auto()  # a file that we wrote, and that nobody has changed since
    FOREIGN = auto()  # anything else: an edited output, a person's notes, a link, a folder


@dataclass(frozen=True, slots=True)
class Spot:
    """Where an output goes; `stands` is never FOREIGN."""

    name: bytes
    stands: Stands


class Ground:
    """Finds the spot for each output of the original `name`, whose content has the hash `source`.

    Args:
        ours: path → SHA-256 of the outputs that the ledger says we wrote for this path, in any version.
    """

    def __init__(self, folder: Folder, name: bytes, source: str, ours: Mapping[bytes, str]) -> None:
        self._folder = folder
        self._name = name
        self._source = source
        self._ours = {path.rpartition(b"/")[2]: hash for path, hash in ours.items() if self._is_here(path)}
        self._limit = folder.name_max
        self._refused: set[bytes] = set()

    def spot(self, format: str, data: bytes) -> Spot:
        """Where the output `data` of this format goes: where its forerunner is, or else the first name that is free.

        Raises:
            OSError: the folder or a file in it can't be read for a reason that may pass.
        """
        for name in self._names(format):
            stands = self._stands(name, data)
            if stands is not Stands.FOREIGN:
                return Spot(name, stands)
        raise AssertionError("candidates never end")

    def refuse(self, name: bytes) -> None:
        """The folder says that something has this name, even if nothing can be seen there."""
        self._refused.add(name)

    def _names(self, format: str) -> Iterator[bytes]:
        for name in sorted(self._ours):
            if name.endswith(b"." + format.encode()) and self._folder.status(name) is not None:
                yield name
        yield from candidates(self._name, format, self._limit)

    def _stands(self, name: bytes, data: bytes) -> Stands:
        status = self._folder.status(name)
        if status is None:
            return Stands.FOREIGN if name in self._refused else Stands.NOTHING
        if not stat.S_ISREG(status.st_mode) or status.st_size > _PROOF_MAX:
            return Stands.FOREIGN
        known = self._ours.get(name)
        if known is None and status.st_size != len(data) and not self._proven:
            return Stands.FOREIGN
        content = self._hash(name)
        if content == sha256(data):
            return Stands.SAME
        return Stands.OURS if content is not None and content in {known, *self._proven} else Stands.FOREIGN

    @cached_property
    def _proven(self) -> frozenset[str]:
        """Hashes of outputs of this content that prove to be ours without the ledger, which may have been lost."""
        for name in islice(candidates(self._name, "json", self._limit), _PROOFS):
            raw = self._read(name)
            proof = json.proof(raw, self._source) if raw is not None else None
            if proof is not None:
                return frozenset(proof.values())
        return frozenset()

    def _read(self, name: bytes) -> bytes | None:
        fd = self._open(name)
        if fd is None:
            return None
        with os.fdopen(fd, "rb") as file:
            return file.read(_PROOF_MAX)

    def _hash(self, name: bytes) -> str | None:
        fd = self._open(name)
        if fd is None:
            return None
        with os.fdopen(fd, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _open(self, name: bytes) -> int | None:
        """A descriptor of a regular file; None for what is not one, or not for us to read."""
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._folder.fd)
        except OSError as error:
            if error.errno in _NOT_OURS:
                return None
            raise
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        return None

    def _is_here(self, path: bytes) -> bool:
        return path.rpartition(b"/")[0] == self._folder.path.rstrip(b"/")
