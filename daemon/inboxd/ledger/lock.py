"""One daemon owns one ledger: an flock beside it, which the kernel drops however its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inboxd.errors import LedgerBusy, LedgerError
from inboxd.ledger.form import stamp


@contextmanager
def own(path: Path) -> Iterator[None]:
    """Own the ledger at `path` for as long as the context lasts.

    The lock file stays behind: removing it would let two daemons lock two files of the same name.

    Raises:
        LedgerBusy: another daemon owns it; says which.
        LedgerError: the lock can't be made there.
    """
    lock = path.with_name(path.name + ".lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise LedgerError(
            f"cannot lock the ledger: {lock}: {error.strerror}",
            f"Check that {path.parent} is there and that this user may write in it.",
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip() or "another process"
            raise LedgerBusy(
                f"the ledger {path} is in use by {holder}",
                "Stop that one first, or give this one its own `state` folder.",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"inboxd, process {os.getpid()}, since {stamp(time.time())[:19]} UTC\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
