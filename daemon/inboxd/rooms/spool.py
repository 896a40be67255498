"""The spool: local copies of what is being read, by content. A share is read once, and all work is done on the copy.

A copy grows under `incoming/` and gets its name, its SHA-256, when it is whole and on disk. Killed at any moment,
all that stays behind is swept when the next life starts.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from inboxd import faults

BLOCK = 1024**2
_DIGITS = 2  # of the hash, that name the folder


class SpoolError(Exception):
    """The spool's disk is in trouble, most likely full; the file that was to be copied is not at fault."""


class CopyStopped(Exception):
    """The daemon stops, and nobody waits for this copy."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A whole copy that has no name yet: `keep` or `discard` it."""

    path: Path
    sha256: str
    size: int


class Spool:
    """The folder of copies. Methods may be called from any thread; they block as a local disk does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._incoming = folder / "incoming"
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()

    def path(self, sha256: str) -> Path:
        """Where the copy of this content lies, if there is one."""
        return self._folder / sha256[:_DIGITS] / sha256

    def holds(self, sha256: str, size: int) -> bool:
        """Whether there is a copy of this content, and it is whole."""
        try:
            return self.path(sha256).stat().st_size == size
        except OSError:
            return False

    def free(self) -> int:
        """Bytes that the spool's disk has left for us.

        Raises:
            SpoolError: that can't be told.
        """
        with self._our_disk():
            self._prepare()
            status = os.statvfs(self._incoming)
        return status.f_bavail * status.f_frsize

    def copy(self, source: int, size: int, is_stopping: Callable[[], bool]) -> Draft:
        """Copy and hash the open file `source` from its start; at most one byte more than `size`, which shows growth.

        Raises:
            OSError: the source can't be read.
            SpoolError: the copy can't be written.
            CopyStopped: `is_stopping` said so.
        """
        path = self._incoming / f"{os.getpid()}-{next(self._numbers)}"
        digest = hashlib.sha256()
        copied = 0
        with self._our_disk():
            self._prepare()
            target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        faults.point("spool.created")
        try:
            try:
                while copied <= size and (block := os.pread(source, min(BLOCK, size + 1 - copied), copied)):
                    if is_stopping():
                        raise CopyStopped
                    digest.update(block)
                    with self._our_disk():
                        _write(target, block)
                    copied += len(block)
                faults.point("spool.copied")
                with self._our_disk():
                    os.fsync(target)
            finally:
                os.close(target)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return Draft(path, digest.hexdigest(), copied)

    def keep(self, draft: Draft) -> Path:
        """Give the copy its name, and hold it: until `unhold`, `release` leaves it alone.

        Raises:
            SpoolError: it can't be named; it is discarded.
        """
        with self._lock:
            self._held[draft.sha256] += 1
        path = self.path(draft.sha256)
        try:
            with self._our_disk():
                path.parent.mkdir(mode=0o700, exist_ok=True)
                draft.path.replace(path)
                faults.point("spool.named")
                _sync(path.parent)
                faults.point("spool.kept")
        except SpoolError:
            self.unhold(draft.sha256)
            self.discard(draft)
            raise
        return path

    def discard(self, draft: Draft) -> None:
        """Remove a copy that was not kept."""
        draft.path.unlink(missing_ok=True)

    def unhold(self, sha256: str) -> None:
        """The ledger knows of this copy by now, and says whether it is needed."""
        with self._lock:
            self._held[sha256] -= 1
            if not self._held[sha256]:
                del self._held[sha256]

    def release(self, sha256: str) -> None:
        """No file in the ledger needs this copy any more: remove it, unless a new arrival holds it."""
        with self._lock:
            if sha256 not in self._held:
                self.path(sha256).unlink(missing_ok=True)
                faults.point("spool.released")

    def copies(self) -> set[str]:
        """The hashes of all copies that the ledger knows of: not of those that are still held.

        Ask the ledger afterwards which it needs, and `release` the rest.
        """
        lying = {path.name for path in self._folder.glob("[0-9a-f][0-9a-f]/*")}
        with self._lock:
            return lying - self._held.keys()

    def sweep(self, keep: Collection[str]) -> int:
        """Remove what earlier lives left unfinished, and every copy whose hash is not in `keep`. Returns how many.

        Only while nothing is being copied.
        """
        needed = frozenset(keep)
        swept = 0
        for path in self._folder.glob("*/*"):
            if path.name not in needed or path.parent.name != path.name[:_DIGITS]:
                path.unlink(missing_ok=True)
                faults.point("spool.swept")
                swept += 1
        return swept

    def _prepare(self) -> None:
        self._incoming.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def _our_disk(self) -> Iterator[None]:
        """What goes wrong in here is not the source's fault."""
        try:
            yield
        except OSError as error:
            raise SpoolError(f"the spool {self._folder}: {error.strerror}") from error


def _write(target: int, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(target, rest) :]


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
