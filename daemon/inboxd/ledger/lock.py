"""One daemon owns one ledger: an flock beside it, which the kernel drops however its holder dies."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from inboxd import faults
from inboxd.errors import LedgerBusy, LedgerError
from inboxd.ledger.form import stamp

_TRIES = 10
_PAUSE_S = 0.05
_SAYS = re.compile(r"process (\d+), since (.+) UTC")


@dataclass(frozen=True, slots=True)
class Owner:
    """A running daemon."""

    pid: int
    since: str  # UTC, as in the ledger


def owner(path: Path) -> Owner | None:
    """The daemon that owns the ledger at `path`, or None where none runs.

    Raises:
        LedgerError: the lock can't be looked at.
    """
    lock = _beside(path)
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerError(
            f"cannot look at {lock}: {error.strerror}", "Run this as the daemon's user or as root."
        ) from error
    try:
        # Held for a moment, shared: a daemon that starts just now tries again.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        says = _SAYS.search(_read(descriptor))
        return Owner(int(says[1]), says[2]) if says else Owner(0, "")
    finally:
        os.close(descriptor)
    return None


@contextmanager
def own(path: Path) -> Iterator[None]:
    """Own the ledger at `path` for as long as the context lasts.

    The lock file stays behind: removing it would let two daemons lock two files of the same name.

    Raises:
        LedgerBusy: another daemon owns it; says which.
        LedgerError: the lock can't be made there.
    """
    lock = _beside(path)
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise LedgerError(
            f"cannot lock the ledger: {lock}: {error.strerror}",
            f"Check that {path.parent} is there and that this user may write in it.",
        ) from error
    try:
        if not _locked(descriptor):
            raise LedgerBusy(
                f"the ledger {path} is in use by {_read(descriptor) or 'another process'}",
                "Stop that one first, or give this one its own `state` folder.",
            )
        os.ftruncate(descriptor, 0)
        faults.point("lock.emptied")
        os.pwrite(descriptor, f"inboxd, process {os.getpid()}, since {stamp(time.time())[:19]} UTC\n".encode(), 0)
        faults.point("lock.signed")
        yield
    finally:
        os.close(descriptor)


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _locked(descriptor: int) -> bool:
    """Lock it; not at the first refusal given up, as `owner` may just be looking."""
    for left in reversed(range(_TRIES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if left:
                time.sleep(_PAUSE_S)
        else:
            return True
    return False


def _read(descriptor: int) -> str:
    return os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip()
