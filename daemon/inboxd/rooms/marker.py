"""The hidden file that an inbox is known by: it tells an emptied folder from a bare mount point, and whose it is."""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from inboxd import faults
from inboxd.core.naming import PREFIX, display
from inboxd.rooms.folders import Folder

log = structlog.get_logger(__name__)

MARKER = PREFIX + b"inbox"
CHALLENGE = PREFIX + b"challenge"
ANSWER_S = 5.0
"""Seconds that a daemon which is asked for a sign of life gets beyond three of its scan intervals."""
_LIMIT = 4096
_NOT_WRITABLE = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.ENOTSUP}
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class NotOurs(Exception):
    """The folder must not be read now; the text says why and what a person can do."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A daemon as the owner of an inbox, as the marker tells it to others."""

    instance: str  # of its ledger
    ledger: str
    inbox: int
    host: str
    kernel: str  # boot and process namespace: where it is ours, `pid` and `started` can be looked up
    pid: int
    started: str
    looks: float  # most seconds between two of its scans

    def __str__(self) -> str:
        return f"the inboxd on {self.host} with the ledger {self.ledger} (process {self.pid})"


def myself(instance: str, ledger: Path, inbox: int, looks: float) -> Owner:
    """This process, as the owner of one of its inboxes."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    kernel = f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    pid = os.getpid()
    name = display(os.fsencode(ledger))
    return Owner(instance, name, inbox, socket.gethostname(), kernel, pid, _started(pid), looks)


class Claim:
    """Our right to one inbox, looked after at each scan of it. Used from one thread."""

    def __init__(self, me: Owner, siblings: frozenset[int], memory: str = "") -> None:
        """`siblings` are the inboxes of this configuration; `memory` is what an earlier life had as its `memory`."""
        self._me = me
        self._siblings = siblings
        self.memory = memory  # the marker and the place of the folder that held files; "" before any was seen
        self._mark = ""
        self._place = ""
        self._content: bytes | None = None  # of the marker, once it is ours
        self._asked: tuple[bytes, int, float] | None = None  # marker and its mtime when asked; when the time is over
        self._rivals: set[bytes] = set()

    def check(self, root: Folder, place: str) -> None:
        """Make sure that `root`, which stands on `place`, is the inbox and ours; mark it at first sight.

        Raises:
            NotOurs: it is another folder, or another daemon's.
            OSError: the folder can't be read.
        """
        self._place = place
        content = _read(root, MARKER)
        if content is None:
            self._take_unmarked(root)
        elif content != self._content:
            self._take_marked(root, content)
        rival = _read(root, CHALLENGE)
        if rival is not None and rival != self._me.instance.encode():
            self._answer(root, rival)

    def remember(self) -> None:
        """Files were seen: from now on an unmarked folder elsewhere is not taken for the inbox."""
        self.memory = f"{self._mark} {self._place}"

    def _take_unmarked(self, root: Folder) -> None:
        mark, _, place = self.memory.partition(" ")
        if self.memory and place != self._place:
            raise NotOurs(f"its marker is missing: is it mounted? {_consent(root)}")
        if self._content is not None:
            log.warning("inbox was emptied or made anew: marking it again", inbox=display(root.path))
        self._write(root, mark or secrets.token_hex(8))

    def _take_marked(self, root: Folder, content: bytes) -> None:
        mark, owner = _parse(content)
        if owner is None:  # a person's consent: an empty marker
            self._write(root, secrets.token_hex(8), over=True)
            if self.memory:
                self.remember()
            return
        known, _, place = self.memory.partition(" ")
        if owner.instance != self._me.instance:
            if self._may_live(root, content, owner):
                raise NotOurs(f"{owner} watches it: give each daemon its own inbox")
            log.warning("taking over an inbox whose daemon is gone", inbox=display(root.path), was=str(owner))
        elif owner.inbox != self._me.inbox and owner.inbox in self._siblings:
            raise NotOurs("it is the same folder as another inbox of this configuration: remove one of them")
        elif self.memory and mark != known and place != self._place:
            raise NotOurs(f"it has an old marker: is it mounted? {_consent(root)}")
        self._write(root, mark, over=True)

    def _may_live(self, root: Folder, content: bytes, owner: Owner) -> bool:
        """Whether another daemon may be alive; one that can't be looked up is asked for a sign of life."""
        if owner.kernel == self._me.kernel:
            return _started(owner.pid) == owner.started
        status, now = root.status(MARKER), time.monotonic()
        changed = status.st_mtime_ns if status else 0
        if self._asked is not None and self._asked[:2] == (content, changed):
            if now < self._asked[2]:
                return True
            self._asked = None
            with suppress(FileNotFoundError):
                os.unlink(CHALLENGE, dir_fd=root.fd)
            return False
        try:
            _put(root, CHALLENGE, self._me.instance.encode(), over=True)
        except OSError as error:
            if error.errno not in _NOT_WRITABLE:
                raise
            return True
        self._asked = (content, changed, now + 3 * owner.looks + ANSWER_S)
        return True

    def _answer(self, root: Folder, rival: bytes) -> None:
        """Give the sign of life that another daemon asks for."""
        if rival not in self._rivals:
            self._rivals.add(rival)
            log.warning("another inboxd wants this inbox, too", inbox=display(root.path))
        try:
            os.utime(MARKER, dir_fd=root.fd, follow_symlinks=False)
            os.unlink(CHALLENGE, dir_fd=root.fd)
        except OSError as error:
            if error.errno not in _NOT_WRITABLE | {errno.ENOENT}:
                raise

    def _write(self, root: Folder, mark: str, *, over: bool = False) -> None:
        content = json.dumps({"mark": mark, **asdict(self._me)}).encode()
        try:
            _put(root, MARKER, content, over=over)
        except FileExistsError as error:
            raise NotOurs("another inboxd is marking it") from error
        except OSError as error:
            if error.errno not in _NOT_WRITABLE:
                raise
            return  # a folder that is only read is known by its place
        self._mark, self._content = mark, content


def _consent(root: Folder) -> str:
    return f"(if this is the right folder: truncate -s 0 '{display(root.at(MARKER))}')"


def _parse(content: bytes) -> tuple[str, Owner | None]:
    """The mark, and the owner that the marker names, if any."""
    try:
        fields = json.loads(content)
        return str(fields.pop("mark")), Owner(**fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        return "", None


def _read(root: Folder, name: bytes) -> bytes | None:
    try:
        fd = os.open(name, _READ, dir_fd=root.fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotOurs(f"{display(root.at(name))} is no plain file: remove it") from error
        raise
    try:
        return os.read(fd, _LIMIT)
    finally:
        os.close(fd)


def _put(root: Folder, name: bytes, content: bytes, *, over: bool) -> None:
    if over:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=root.fd)
            faults.point("marker.removed")
    fd = os.open(name, _CREATE, 0o644, dir_fd=root.fd)
    try:
        faults.point("marker.created")
        os.write(fd, content)
        os.fsync(fd)
        faults.point("marker.written")
    finally:
        os.close(fd)


def _started(pid: int) -> str:
    """When a process of this machine began, in clock ticks since boot; empty where there is none."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return status.rpartition(")")[2].split()[19]
