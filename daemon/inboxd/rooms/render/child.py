"""A worker as the operating system sees it: started with a wire to it, and buried with its last words."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys

from inboxd.rooms.render.decoder_words import MEMORY, tidied

_LAST_WORDS = 4096  # bytes
_GRACE = 2.0  # seconds that a process which hung up may take to end


class Child:
    """A process that runs `worker`.

    It lives no longer than the thread that starts it: a process asks the kernel to end it with its parent, and to the
    kernel the parent is a thread.
    """

    def __init__(self, sheets: int) -> None:
        """Start it, and let it have the descriptor `sheets`.

        Raises:
            OSError: no process can be started.
        """
        self._words = os.memfd_create(MEMORY, os.MFD_CLOEXEC)
        self.wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.wire.setblocking(False)
        descriptors = [theirs.fileno(), sheets]
        try:
            with theirs:
                self._process = subprocess.Popen(
                    # -P: the folder that we happen to be in must not lend its modules to the worker.
                    [sys.executable, "-P", "-m", "inboxd.rooms.render.worker", *map(str, descriptors)],
                    pass_fds=descriptors,
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._words,
                    start_new_session=True,  # out of reach of the terminal's Ctrl-C from the first instant
                )
        except OSError:
            self._close()
            raise
        self.pid = self._process.pid

    def bury(self, *, kill: bool) -> str:
        """Wait until it is no more, and say how it ended; blocks. Without `kill` it is killed only if it lingers."""
        code = None
        if not kill:
            with contextlib.suppress(subprocess.TimeoutExpired):  # it hung up, and lives
                code = self._process.wait(_GRACE)
        if code is None:
            self._process.kill()
            code = self._process.wait()
        size = os.fstat(self._words).st_size
        words = tidied(os.pread(self._words, _LAST_WORDS, max(0, size - _LAST_WORDS)))
        self._close()
        return f"{_manner(code)} ({words[-1]})" if words and code > 0 else _manner(code)

    def _close(self) -> None:
        os.close(self._words)
        self.wire.close()


def _manner(code: int) -> str:
    if code == -signal.SIGKILL:
        return "was killed, perhaps since the machine ran out of memory"
    if code < 0:
        return f"crashed ({signal.Signals(-code).name})"
    return f"ended with exit code {code}"
