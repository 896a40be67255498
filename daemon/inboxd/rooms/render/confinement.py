"""What a worker gives up before it sees a document: signals, memory, files, and a life longer than its parent's."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

OPEN_FILES = 64
FILE_BYTES = 1024 * 1024  # of what it may write into one file, which can only be the decoders' words
OOM_SCORE = 800  # when memory runs out, better a page's renderer than the daemon
_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Be killed when `parent` ends, however it ends; leave the signals of terminal and systemd to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above took effect
        sys.exit("inboxd: the daemon that wanted this renderer is gone")


def limit(memory_bytes: int) -> None:
    """Bound this process: `memory_bytes` of its own beyond what it has now, and next to nothing to write.

    A file that is only read does not count: a document may be larger than what drawing it may take.

    Time is not bounded here: the pool kills whoever takes too long, also where CPU time stands still.
    """
    now = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    for what, bound in (
        (resource.RLIMIT_DATA, now + memory_bytes),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        lower = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(what, (lower, lower))
    score = Path("/proc/self/oom_score_adj")
    score.write_text(str(max(OOM_SCORE, int(score.read_text()))))  # lowering it would take a privilege
