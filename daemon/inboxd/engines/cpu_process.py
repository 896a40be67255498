"""The daemon's end of one reading process of the CPU engine: started, spoken to, ended, started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from typing import TYPE_CHECKING, Any

from inboxd.errors import EngineUnusable
from inboxd.model import EngineInfo, PageFailure, PageText

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    import numpy as np

LOAD_TIMEOUT = 600.0  # seconds; loading takes 4 s of one core, which may have much else to do at a low priority

# A page needs the same few large buffers again and again: returning them to the kernel each time costs a
# tenth of the work. The reading process is single-threaded, and so should the libraries below it be.
ENVIRONMENT = {
    "MALLOC_TRIM_THRESHOLD_": "2000000000",
    "MALLOC_MMAP_THRESHOLD_": "2000000000",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class ReadingProcess:
    """One `cpu_worker`. `ready` and `read` block: call them on `thread`, where they can't overlap.

    The thread also keeps the process alive: a process asks the kernel to end it with its parent, and to the kernel
    the parent is the thread that started it.
    """

    def __init__(self, number: int) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=f"cpu-engine-{number}")
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection[Any, Any] | None = None
        self._info: EngineInfo | None = None

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def ready(self) -> EngineInfo:
        """Start the process unless it runs, and wait until it has read its test page.

        Raises:
            EngineUnusable: it says that it can't, or it dies, or it takes too long.
        """
        if self._info is not None and self.pid is not None:
            return self._info
        self._end()
        self._pipe, theirs = Pipe()
        with theirs:
            try:
                self._process = _started(theirs)
            except OSError as error:
                raise EngineUnusable(f"no process can be started: {error.strerror}", "Is there memory left?") from error
        hello = self._hello(self._pipe)
        if isinstance(hello, EngineUnusable):
            self._end()
            raise hello
        self._info = hello
        return self._info

    def read(self, pixels: np.ndarray) -> PageText | PageFailure:
        """Have a page read (uint8, height × width × RGB). The process is gone after a failure."""
        assert self._pipe is not None, "ready() comes first"
        try:
            self._pipe.send(pixels)
            answer: PageText | PageFailure = self._pipe.recv()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return PageFailure(f"the reading process died ({self._end()})", died=True)
        if isinstance(answer, PageFailure):
            self._end()
        return answer

    def kill(self) -> None:
        """End the process from whatever thread, without waiting."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process and the thread. Idempotent; blocks for a moment."""
        self.kill()
        self.thread.shutdown()
        self._end()

    def _hello(self, pipe: Connection[Any, Any]) -> EngineInfo | EngineUnusable:
        """What the new process says of itself, or why it says nothing."""
        try:
            if pipe.poll(LOAD_TIMEOUT):
                hello: EngineInfo | EngineUnusable = pipe.recv()
                return hello
        except (EOFError, ConnectionResetError):
            how = self._end()
            return EngineUnusable(f"the CPU engine died while loading ({how})", "Its last words are in the log.")
        return EngineUnusable(f"the CPU engine did not load within {LOAD_TIMEOUT:g} s", "Is the machine overloaded?")

    def _end(self) -> str:
        """Make sure that the process is gone; returns how it went."""
        if self._pipe is not None:
            self._pipe.close()
        process, self._process, self._pipe, self._info = self._process, None, None, None
        if process is None:
            return "it never ran"
        process.kill()
        code = process.wait()
        if code == -signal.SIGKILL:
            return "SIGKILL: out of memory?"
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def _started(pipe: Connection[Any, Any]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # -P: the folder that we happen to be in must not lend its modules to the worker.
        [sys.executable, "-P", "-m", "inboxd.engines.cpu_worker", str(pipe.fileno()), str(os.getpid())],
        pass_fds=[pipe.fileno()],
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
