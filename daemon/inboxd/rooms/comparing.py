"""What a scan has to tell: where a folder and the ledger differ."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import get_args

from inboxd.config import Format
from inboxd.core.ignoring import Filter, output_beside
from inboxd.core.lifecycle import FINAL, FileState
from inboxd.ledger.reading import Reader
from inboxd.model import Entry, FileId, Gone, InboxId, Sighting
from inboxd.rooms.folders import Folder
from inboxd.rooms.listing import Listing, descend, join

MOST = 500
"""Entries that are told at once: a folder may hold any number."""
FORMATS = frozenset(get_args(Format))
ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""What a folder answers that is no longer there; anything else means that it can't be seen."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A file that the ledger waits for under a name that is no more."""

    file: FileId
    old: bytes
    new: Sighting


Found = tuple[Sighting | Gone | Moved, ...]


class Comparer:
    """Compares folders of one inbox with the ledger.

    What is missing is told when all folders of a scan have been compared: it may have been moved to one of them.
    """

    def __init__(self, inbox: InboxId, reader: Reader, filter: Filter) -> None:
        self._inbox = inbox
        self._reader = reader
        self._filter = filter
        self._missing: dict[FileId, Gone] = {}

    def begin(self) -> None:
        """A scan begins."""
        self._missing.clear()

    def differences(self, root: Folder, opened: Folder, folder: bytes, listing: Listing) -> Iterator[Found]:
        """What is new, changed or still settling in `folder`, open as `opened`, below the open inbox."""
        return _chunks(self._differences(root, opened, folder, listing))

    def missing(self, root: Folder) -> Iterator[Found]:
        """What the ledger waits for and the scan did not find, neither at its place nor at another; or did not look
        for, since the settings leave it out by now."""
        return _chunks(
            gone
            for gone in self._missing.values()
            if self._filter.path(gone.path) is not None or _is_absent(root, gone.path)
        )

    def missing_in(self, folder: bytes) -> Iterator[Found]:
        """What the ledger waits for in a folder that is no more, or that the settings leave out by now."""
        known = self._reader.known(self._inbox, folder)
        return _chunks(self._gone(join(folder, name)) for name, row in known.items() if row.state not in FINAL)

    def awaited_folders(self) -> set[bytes]:
        """Folders with files that the ledger waits for."""
        return self._reader.open_folders(self._inbox)

    def _differences(self, root: Folder, opened: Folder, folder: bytes, listing: Listing) -> Iterator[Sighting | Moved]:
        known = self._reader.known(self._inbox, folder)
        outputs: set[bytes] | None = None
        moved: set[FileId] = set()
        for name, entry, signature in listing.entries:
            row = known.pop(name, None)
            if row is None:
                if name.rpartition(b".")[2].decode("ascii", "replace") in FORMATS:
                    outputs = self._reader.outputs_in(opened.path) if outputs is None else outputs
                    if name in outputs or output_beside(name, listing.names, FORMATS):
                        continue
            elif row.signature == signature and row.state not in (FileState.SETTLING, FileState.VANISHED):
                continue
            sighting = Sighting(self._inbox, join(folder, name), entry, signature)
            origin = self._origin(root, sighting) if row is None or row.state is FileState.VANISHED else None
            if origin is not None:
                moved.add(origin.file)
                self._missing.pop(origin.file, None)
            yield origin or sighting
        for name, row in known.items():
            if row.state not in FINAL and row.file not in moved:
                self._missing[row.file] = self._gone(join(folder, name))

    def _gone(self, path: bytes) -> Gone:
        rule = self._filter.path(path)
        return Gone(self._inbox, path) if rule is None else Gone(self._inbox, path, f"{rule.why} ({rule.glob})")

    def _origin(self, root: Folder, sighting: Sighting) -> Moved | None:
        """The file that was given a new name, where the ledger waits for it under the old one."""
        if not sighting.signature.inode or sighting.entry is not Entry.FILE:
            return None
        for file, old in self._reader.find_moved(self._inbox, sighting.signature):
            if old != sighting.path and _is_absent(root, old):
                return Moved(file, old, sighting)
        return None


def _is_absent(root: Folder, path: bytes) -> bool:
    folder, _, name = path.rpartition(b"/")
    try:
        with descend(root, folder) as opened:
            status = opened.status(name)
            return status is None or stat.S_ISDIR(status.st_mode)
    except OSError as error:
        return error.errno in ABSENT


def _chunks(found: Iterable[Sighting | Gone | Moved]) -> Iterator[Found]:
    chunk: list[Sighting | Gone | Moved] = []
    for one in found:
        chunk.append(one)
        if len(chunk) == MOST:
            yield tuple(chunk)
            chunk = []
    if chunk:
        yield tuple(chunk)
