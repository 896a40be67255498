"""The daemon's end of the vLLM process: started, spoken to, ended.

vLLM's front end computes: pixels into tensors, some 8,000 tokens a second into answers. In the daemon's own process
that took turns with the rooms for Python's lock, and a fifth of an H200's time was lost
(docs/decisions/0010-vllm-in-a-process-of-its-own.md).
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from inboxd.engines import vllm_wire as wire
from inboxd.errors import EngineLost, EngineUnusable, InboxdError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

CLOSING_S = 10.0
"""How long vLLM may take to end by itself."""


class CallFailed(InboxdError):
    """A method of the workers failed; the engine lives on."""


class VllmProcess:
    """One vLLM, in a process group of its own."""

    def __init__(self, process: subprocess.Popen[bytes], writer: asyncio.StreamWriter, sockets: Path | None) -> None:
        self._process = process
        self._writer = writer
        self._sockets = sockets
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._started: asyncio.Future[wire.Started | wire.Unusable] = asyncio.get_running_loop().create_future()
        self._listener: asyncio.Task[None] | None = None
        self._lost: str | None = None

    @classmethod
    async def launch(cls, environment: dict[str, str], sockets: Path | None) -> VllmProcess:
        """Start the process; it imports vLLM when it gets the order to start. The folder `sockets` ends with it.

        Raises:
            EngineUnusable: this machine has no process to give.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = _started(theirs, environment)
            except OSError as error:
                ours.close()
                raise EngineUnusable(f"no process can be started: {error.strerror}", "Is there memory left?") from error
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=wire.BUFFER)
        launched = cls(process, writer, sockets)
        launched._listener = asyncio.create_task(launched._listen(reader))
        return launched

    async def start(self, order: wire.Start) -> wire.Started | wire.Unusable:
        """Build the engine.

        Raises:
            EngineLost: the process died of it.
        """
        wire.send(self._writer, order)
        return await self._started

    async def read(self, order: wire.Read, pixels: np.ndarray) -> wire.Answer | wire.Failed:
        """Have one page read; `order.number` is filled in here.

        Raises:
            EngineLost: the engine died or was closed.
        """
        self._check()
        number, answer = self._expect()
        wire.send(self._writer, msgspec.structs.replace(order, number=number), pixels)
        try:
            await self._writer.drain()
            reply: wire.Answer | wire.Failed = await answer
        except asyncio.CancelledError:
            if self._lost is None:
                wire.send(self._writer, wire.Forget(number))
            raise
        except ConnectionError as error:
            raise EngineLost(f"the vLLM process is gone: {error}") from error
        finally:
            self._waiting.pop(number, None)
        return reply

    async def call(self, method: str, *arguments: Any) -> wire.Called:
        """Call a method of `InboxdWorker` in every worker.

        Raises:
            CallFailed: it failed in one of them.
            EngineLost: as `read`.
        """
        self._check()
        number, answer = self._expect()
        wire.send(self._writer, wire.Call(number, method, arguments))
        try:
            reply: wire.Called | wire.Failed = await answer
        finally:
            self._waiting.pop(number, None)
        if isinstance(reply, wire.Failed):
            raise CallFailed(f"{method}: {reply.reason}")
        return reply

    async def close(self) -> None:
        """End the process and all that it started; calls in flight raise EngineLost."""
        listens = self._lost is None and self._started.done() and not self._started.cancelled()  # not while it loads
        patience = CLOSING_S if listens else 0.0
        self._lose("the engine was closed")
        self._writer.close()  # which the process understands
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
        await asyncio.to_thread(self._end, patience)

    def _end(self, patience: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        with suppress(ProcessLookupError):  # the group outlives its leader while vLLM's own processes are there
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._sockets is not None:
            shutil.rmtree(self._sockets, ignore_errors=True)  # else the next life does it

    def _check(self) -> None:
        if self._lost is not None:
            raise EngineLost(self._lost, "Start it again.")

    def _expect(self) -> tuple[int, asyncio.Future[Any]]:
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        return number, self._waiting[number]

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                match reply := await wire.next_reply(reader):
                    case wire.Started() | wire.Unusable():
                        self._started.set_result(reply)
                    case wire.Dead():
                        self._lose(f"vLLM's engine core died: {reply.reason}")
                    case _:
                        waiting = self._waiting.get(reply.number)
                        if waiting is not None and not waiting.done():
                            waiting.set_result(reply)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._lose("the vLLM process died")

    def _lose(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
        for waiting in (self._started, *self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(EngineLost(self._lost, "Its own log says why: vllm.log."))
                waiting.exception()  # the start may have nobody to wait for it


def _started(connection: socket.socket, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # -P: the folder that we happen to be in must not lend its modules to the process.
        [sys.executable, "-P", "-m", "inboxd.engines.vllm_child", str(connection.fileno()), str(os.getpid())],
        pass_fds=[connection.fileno()],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the daemon, which drains, and needs its engine for that
    )
