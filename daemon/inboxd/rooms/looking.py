"""One look at a settling file, by descriptors only; where it is complete, the one copy that is made of it.

Runs on a thread: everything here may block as long as the share likes. Nothing is written outside the spool.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from inboxd import faults
from inboxd.core import sniffing, tails
from inboxd.core.settling import GiveUp, Pace, Quiet, Take, Wait, decide
from inboxd.model import Kind, Signature
from inboxd.rooms.folders import Folder, below
from inboxd.rooms.listing import signature_of
from inboxd.rooms.spool import Spool

GROWING = "still being written"
EMPTY = "incomplete: it is empty (0 bytes)"
NO_ROOM_S = 10.0
"""Seconds after which a file that did not fit is tried again."""
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO}
_BUSY = {errno.EBUSY, errno.ETXTBSY, errno.EAGAIN}


@dataclass(frozen=True, slots=True)
class Errand:
    """What a look is to be at. Times are monotonic seconds."""

    root: bytes  # absolute path of the inbox
    path: bytes  # below it
    quiet: Quiet
    pace: Pace
    max_bytes: int
    min_free: int
    last_sha256: str = ""  # of a copy that was thrown away because the file seemed to change


@dataclass(frozen=True, slots=True)
class Copied:
    """The file is complete, and in the spool. Its copy is held there."""

    signature: Signature
    kind: Kind
    sha256: str
    spool: Path


@dataclass(frozen=True, slots=True)
class Changed:
    """It changed while it was copied: it was not complete. `sha256` is that of the copy, which is gone."""

    quiet: Quiet
    sha256: str


@dataclass(frozen=True, slots=True)
class NotForUs:
    """It is complete, and no document."""

    reason: str


@dataclass(frozen=True, slots=True)
class Away:
    """The file or its folder can't be reached; the scan will tell what became of it."""

    reason: str


@dataclass(frozen=True, slots=True)
class NoSpace:
    """The spool has no room for any file: it has once `wanted` bytes are free; 0: only trying again will tell."""

    reason: str
    wanted: int = 0


Outcome = Wait | GiveUp | Copied | Changed | NotForUs | Away | NoSpace


def look(errand: Errand, spool: Spool, is_stopping: Callable[[], bool]) -> Outcome:
    """Look at a file once, and take it if it is complete.

    Raises:
        CopyStopped: `is_stopping` said so.
        SpoolError: the spool is in trouble.
    """
    folder, _, name = errand.path.rpartition(b"/")
    try:
        with below(errand.root, folder) as opened:
            try:
                fd = os.open(name, _FLAGS, dir_fd=opened.fd)
            except OSError as error:
                return _unopened(errand, opened, name, error)
            try:
                return _Look(errand, opened, name, fd).result(spool, is_stopping)
            finally:
                os.close(fd)
    except OSError as error:
        return Away(error.strerror or str(error))


def _unopened(errand: Errand, folder: Folder, name: bytes, error: OSError) -> Outcome:
    """The file is there and can't be opened: it waits, and says why."""
    if error.errno in _ABSENT or error.errno in (errno.EMFILE, errno.ENFILE):
        return Away(error.strerror or str(error))
    os.fstatvfs(folder.fd)  # raises where the whole share is away
    now = time.monotonic()
    status = folder.status(name)
    if status is None:
        return Away("it is gone")
    if error.errno in (errno.EACCES, errno.EPERM):
        us = f"{os.geteuid()}:{os.getegid()}"
        mode = stat.S_IMODE(status.st_mode)
        lacks = f"no permission to read it (owner {status.st_uid}:{status.st_gid}, mode {mode:04o}; inboxd is {us})"
    elif error.errno in _BUSY:
        lacks = f"busy: {error.strerror}"
    else:
        lacks = f"it can't be opened: {error.strerror}"
    quiet = errand.quiet.after(signature_of(status, keeps_inodes=errand.quiet.signature.inode != 0), now)
    outcome = decide(quiet, lacks, errand.pace, now)
    assert not isinstance(outcome, Take)
    return outcome


class _Shrunk(Exception):
    """The file is shorter than it was a moment ago."""


class _Look:
    """A look at a file that is open."""

    def __init__(self, errand: Errand, folder: Folder, name: bytes, fd: int) -> None:
        self._errand = errand
        self._folder = folder
        self._name = name
        self._fd = fd
        self._keeps_inodes = errand.quiet.signature.inode != 0
        self._size = 0

    def result(self, spool: Spool, is_stopping: Callable[[], bool]) -> Outcome:
        errand, now = self._errand, time.monotonic()
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            return Away("it is no plain file any more")
        self._size = status.st_size
        quiet = errand.quiet.after(self._signature(status), now)
        if not quiet.is_settled(errand.pace, now):
            return Wait(quiet.since + errand.pace.settle, GROWING if quiet is not errand.quiet else "", quiet)
        if self._size > errand.max_bytes:
            over = self._size - errand.max_bytes
            return GiveUp(f"too large: {self._size:,} bytes, {over:,} more than intake.max_file_bytes allows")
        try:
            head = self._read(0, sniffing.HEAD)
            kind = sniffing.kind_of(head)
            lacks = self._lacks(kind, head, is_patient=not quiet.is_stuck(errand.pace, now))
            decision = decide(quiet, lacks, errand.pace, now)
            if not isinstance(decision, Take):
                return decision
            if kind is None:
                return NotForUs(sniffing.foreign(head))
            return self._take(quiet, kind, spool, is_stopping)
        except _Shrunk:
            return Wait(now + errand.pace.settle, GROWING, replace(quiet, since=now))
        except OSError as error:
            os.fstatvfs(self._fd)  # raises where the whole share is away
            decision = decide(quiet, f"it can't be read: {error.strerror}", errand.pace, now)
            assert not isinstance(decision, Take)
            return decision

    def _lacks(self, kind: Kind | None, head: bytes, *, is_patient: bool) -> str:
        if not head:
            return EMPTY
        if sniffing.is_blank(head):
            return "incomplete: nothing but zeros so far"
        if kind is None:
            return ""
        if is_patient and self._has_holes():
            return "incomplete: parts of it are not written yet (holes)"
        # Where inodes are made up, holes are not told either.
        zeros_count = is_patient and not self._keeps_inodes
        missing = tails.missing(kind, self._size, self._read, patient=is_patient, zeros_count=zeros_count)
        return f"incomplete: {missing}" if missing else ""

    def _take(self, quiet: Quiet, kind: Kind, spool: Spool, is_stopping: Callable[[], bool]) -> Outcome:
        free, least = spool.free(), self._errand.min_free
        if free < least:
            return NoSpace(f"the disk of the spool has less than {least:,} bytes free", least)
        if free < self._size + least:  # smaller ones still fit
            lacks = f"no room for it: the disk of the spool needs {self._size:,} bytes free, and {least:,} to spare"
            return Wait(time.monotonic() + NO_ROOM_S, lacks, quiet)
        draft = spool.copy(self._fd, self._size, is_stopping)
        try:
            after = self._signature(os.fstat(self._fd))
            status = self._folder.status(self._name)
        except OSError:
            spool.discard(draft)
            raise
        if status is None:
            spool.discard(draft)
            return Away("it is gone")
        if after == quiet.signature:
            after = self._signature(status)
        # A share's times may settle late, or differ from one way of asking to the other: equal bytes tell more.
        is_same = after == quiet.signature or draft.sha256 == self._errand.last_sha256
        if draft.size != self._size or not is_same:
            spool.discard(draft)
            return Changed(Quiet(after, time.monotonic()), draft.sha256)
        faults.point("intake.copied")
        spool.keep(draft)
        return Copied(after, kind, draft.sha256, spool.path(draft.sha256))

    def _signature(self, status: os.stat_result) -> Signature:
        return signature_of(status, keeps_inodes=self._keeps_inodes)

    def _has_holes(self) -> bool:
        try:
            return os.lseek(self._fd, 0, os.SEEK_HOLE) < self._size
        except OSError:  # this filesystem does not tell
            return False

    def _read(self, offset: int, length: int) -> bytes:
        wanted = max(0, min(length, self._size - offset))
        data = b""
        while len(data) < wanted:
            more = os.pread(self._fd, wanted - len(data), offset + len(data))
            if not more:
                raise _Shrunk
            data += more
        return data
