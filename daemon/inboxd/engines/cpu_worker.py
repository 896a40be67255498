"""A reading process of the CPU engine: `python -m inboxd.engines.cpu_worker FD PARENT`.

It says over the socket FD what it is (EngineInfo), or why it can't be (EngineUnusable), then answers each page's
pixels with a PageText, or with a PageFailure and its own end: after an error that nobody foresaw, a fresh
process is worth more than this one.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from inboxd.errors import EngineUnusable
from inboxd.model import PageFailure

NICE = 10  # reading fills every core for hours; the daemon, and whatever else lives here, goes first
OOM_SCORE = 500  # when memory runs out, better a page's reader than the daemon
IDLE = 20.0  # seconds without a page after which memory goes back: of 0.7 GB, 0.2 GB stays
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)


def behave(parent: int) -> None:
    """Give way to others, die with the parent, and leave the signals of the terminal and of systemd to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above took effect
        sys.exit("inboxd: the daemon that wanted this reading process is gone")
    os.nice(NICE)
    score = Path("/proc/self/oom_score_adj")
    if int(score.read_text()) < OOM_SCORE:  # lowering it would need a privilege
        score.write_text(str(OOM_SCORE))


def serve(pipe: Connection) -> None:
    """Load, say so, and read pages until the daemon hangs up."""
    from inboxd.engines.cpu_reader import PageReader

    try:
        reader = PageReader()
    except EngineUnusable as error:
        pipe.send(error)
        return
    pipe.send(reader.info)
    while True:
        try:
            if not pipe.poll(IDLE):
                _libc.malloc_trim(0)
            pixels = pipe.recv()
        except EOFError:
            return
        try:
            answer = reader.read(pixels)
        except Exception as error:
            pipe.send(PageFailure(f"the CPU engine failed on it: {type(error).__name__}: {error}"))
            raise
        pipe.send(answer)


if __name__ == "__main__":
    behave(int(sys.argv[2]))
    serve(Connection(int(sys.argv[1])))
