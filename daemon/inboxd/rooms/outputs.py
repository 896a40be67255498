"""The outputs room: a whole reading becomes files beside its original, all of them whole, before the ledger is told.

Every step may be the last one before the power goes. Drafts are written and synced first, then each gets its final
name, the JSON last; a repeat finds what stands already and adds only what is missing. A file that the ledger does
not say we wrote, with the hash it has now, is never replaced: the output takes the next free name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from inboxd import faults
from inboxd.config import Inbox
from inboxd.core.naming import display
from inboxd.core.trouble import KEPT, STAYS, Reach, cannot_write, reach
from inboxd.formats import render, sha256
from inboxd.ledger.reading import Reader
from inboxd.model import Reading, Written
from inboxd.rooms import archiving
from inboxd.rooms.aside import aside
from inboxd.rooms.folders import Folder, below, dress_output, mirrored
from inboxd.rooms.ground import Ground, Stands
from inboxd.rooms.marker import MARKER
from inboxd.rooms.placing import Draft, sweep
from inboxd.rooms.roots import Roots, holds_anything

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Undeliverable:
    """It can't be done now; worth another try later."""

    reason: str  # for a person: what, where, and what to do
    errno: int = 0
    reach: Reach = Reach.FILE


@dataclass(frozen=True, slots=True)
class Vanished:
    """The original is not where it was read: deleted, renamed, or its share is away."""

    reason: str
    certain: bool = False  # the inbox itself is there, by its marker: the share is not away
    reach: Reach = Reach.FILE


@dataclass(frozen=True, slots=True)
class Archived:
    """The original is in the archive."""

    path: bytes  # absolute


class Outputs:
    """Writes outputs, and moves originals to the archive where an inbox wants that.

    Args:
        reader: opens the query-only side of the ledger; called on the thread that uses it.
    """

    def __init__(self, reader: Callable[[], Reader]) -> None:
        self._reader = reader
        self._roots = Roots()
        self._undressed: set[bytes] = set()
        self._swept: set[bytes] = set()

    async def deliver(self, reading: Reading, inbox: Inbox) -> tuple[Written, ...] | Undeliverable | Vanished:
        """Write every output that the inbox wants. Safe to repeat, and to lose at any moment."""
        return await aside(self._deliver, reading, inbox)

    async def archive(self, reading: Reading, inbox: Inbox) -> Archived | Undeliverable | Vanished:
        """Move the original below the inbox's archive_dir, which must be set: once the ledger knows of its outputs.

        Safe to repeat: an original that is there already is `Archived`.
        """
        return await aside(self._archive, reading, inbox)

    def _deliver(self, reading: Reading, inbox: Inbox) -> tuple[Written, ...] | Undeliverable | Vanished:
        inbox_root = _absolute(inbox.path)
        target_root = _absolute(inbox.output_dir) if inbox.output_dir is not None else inbox_root
        relative, _, name = reading.path.rpartition(b"/")
        with self._reader() as reader:
            signature, ours = reader.signature(reading.file), reader.written_for(reading.file)
        outputs = render(reading, inbox.outputs)
        concerned = inbox_root
        try:
            with ExitStack() as stack:
                home = stack.enter_context(below(inbox_root, relative))
                original = home.status(name)
                if original is not None and not archiving.same(original, signature):
                    return _changed(home.at(name))
                original = original or _archived(reading, inbox)
                if original is None:
                    return _vanished(inbox_root, reading)
                concerned = target_root
                if target_root != inbox_root:
                    self._roots.prepare(target_root, inbox_root)
                    folder = stack.enter_context(mirrored(target_root, relative, inbox_root))
                else:
                    folder = home
                self._sweep(folder)
                ground = Ground(folder, name, reading.sha256, ours)
                return self._write(folder, ground, outputs, original)
        except OSError as error:
            if error.errno == errno.ENOENT and concerned == inbox_root and Path(inbox.path).is_dir():
                return _vanished(inbox_root, reading)  # with its whole folder
            return _undeliverable(error, _join(concerned, relative), KEPT)

    def _write(
        self, folder: Folder, ground: Ground, outputs: Mapping[str, bytes], original: os.stat_result
    ) -> tuple[Written, ...]:
        names: dict[str, bytes] = {}
        drafts: dict[str, Draft] = {}
        with ExitStack() as stack:
            for format, data in outputs.items():
                spot = ground.spot(format, data)
                if spot.stands is Stands.SAME:
                    names[format] = spot.name
                else:
                    drafts[format] = stack.enter_context(Draft(folder))
                    self._fill(drafts[format], data, original, folder)
            for format, draft in drafts.items():
                names[format] = _settle(draft, ground, format, outputs[format])
            folder.sync()
            faults.point("outputs.delivered")
        return tuple(
            Written(folder.at(names[format]), format, sha256(data), len(data)) for format, data in outputs.items()
        )

    def _fill(self, draft: Draft, data: bytes, original: os.stat_result, folder: Folder) -> None:
        draft.write(data)
        if not dress_output(draft.fd, original) and folder.path not in self._undressed:
            self._undressed.add(folder.path)
            log.info("outputs can't have their original's group and mode here", folder=display(folder.path))
        draft.finish()

    def _sweep(self, folder: Folder) -> None:
        """A killed life leaves its drafts where it was writing, and that file is owed: so it is enough to sweep each
        folder before this life first writes into it."""
        if folder.path not in self._swept:
            swept = sweep(folder)
            self._swept.add(folder.path)
            if swept:
                log.info("removed what an interrupted life left", folder=display(folder.path), files=swept)

    def _archive(self, reading: Reading, inbox: Inbox) -> Archived | Undeliverable | Vanished:
        if inbox.archive_dir is None:
            raise ValueError("this inbox has no archive")
        inbox_root, archive_root = _absolute(inbox.path), _absolute(inbox.archive_dir)
        relative, _, name = reading.path.rpartition(b"/")
        with self._reader() as reader:
            signature = reader.signature(reading.file)
        concerned = inbox_root
        try:
            with ExitStack() as stack:
                home = stack.enter_context(below(inbox_root, relative))
                concerned = archive_root
                self._roots.prepare(archive_root, inbox_root)
                archive = stack.enter_context(mirrored(archive_root, relative, inbox_root))
                self._sweep(archive)
                if home.status(name) is None:
                    there = archiving.find(archive, name, reading.size, reading.sha256)
                    return Archived(archive.at(there)) if there is not None else _vanished(inbox_root, reading)
                return Archived(archive.at(archiving.move(home, name, archive, signature, reading.sha256)))
        except archiving.Changed:
            return _changed(_join(inbox_root, reading.path))
        except OSError as error:
            return _undeliverable(error, _join(concerned, relative), STAYS)


def _settle(draft: Draft, ground: Ground, format: str, data: bytes) -> bytes:
    """Give the draft the name that its output should have, and say which. Where the same content stands already,
    the draft is left over."""
    while True:
        spot = ground.spot(format, data)
        if spot.stands is Stands.SAME:
            return spot.name
        try:
            if spot.stands is Stands.OURS:
                draft.replace(spot.name)
            else:
                draft.place(spot.name)
        except FileExistsError:
            ground.refuse(spot.name)
        else:
            return spot.name


def _archived(reading: Reading, inbox: Inbox) -> os.stat_result | None:
    """The original in the archive, where an earlier life may have moved it before the ledger could say so."""
    if inbox.archive_dir is None:
        return None
    relative, _, name = reading.path.rpartition(b"/")
    try:
        with below(_absolute(inbox.archive_dir), relative) as archive:
            there = archiving.find(archive, name, reading.size, reading.sha256)
            return archive.status(there) if there is not None else None
    except FileNotFoundError:
        return None


def _vanished(inbox_root: bytes, reading: Reading) -> Vanished:
    with suppress(OSError), Folder.open(inbox_root) as root:
        if holds_anything(root.fd):  # a bare mount point does not
            return Vanished(f"{display(root.at(reading.path))} is no longer there", root.status(MARKER) is not None)
    return Vanished(f"{display(inbox_root)} is empty or cannot be seen", reach=Reach.INBOX)


def _changed(path: bytes) -> Undeliverable:
    return Undeliverable(f"{display(path)} was changed after it was read: its new content comes first", errno.ESTALE)


def _undeliverable(error: OSError, folder: bytes, then: str) -> Undeliverable:
    number = error.errno or errno.EIO
    who = f"inboxd is user {os.geteuid()}"
    with suppress(OSError):
        status = os.stat(folder)  # noqa: PTH116
        who += f", the folder is of {status.st_uid}:{status.st_gid} with mode {stat.S_IMODE(status.st_mode):03o}"
    return Undeliverable(cannot_write(number, display(folder), who, then), number, reach(number))


def _absolute(path: str) -> bytes:
    return os.path.normpath(os.fsencode(path))


def _join(root: bytes, relative: bytes) -> bytes:
    return os.path.join(root, relative).rstrip(b"/")  # noqa: PTH118
