"""The daemon's end of the vLLM process: started, spoken to, ended.

vLLM's front end computes: pixels into tensors, some 8,000 tokens a second into answers. In the daemon's own process
that took turns with the rooms for Python's lock, and a fifth of an H200's time was lost
(docs/decisions/0010-vllm-in-a-process-of-its-own.md).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from inboxd.engines import vllm_wire as wire
from inboxd.errors import EngineLost, EngineUnusable, InboxdError

if TYPE_CHECKING:
    import numpy as np

CLOSING_S = 10.0
"""How long vLLM may take to end by itself."""

_ALLOCATOR = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}


class CallFailed(InboxdError):
    """A method of the workers failed; the engine lives on."""


class VllmProcess:
    """One vLLM, in a process group of its own."""

    def __init__(self, process: subprocess.Popen[bytes], writer: asyncio.StreamWriter) -> None:
        self._process = process
        self._writer = writer
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._started: asyncio.Future[wire.Started | wire.Unusable] = asyncio.get_running_loop().create_future()
        self._listener: asyncio.Task[None] | None = None
        self._lost: str | None = None

    @classmethod
    async def launch(cls, environment: dict[str, str]) -> VllmProcess:
        """Start the process; it imports vLLM when it gets the order to start."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                # -P: the folder that we happen to be in must not lend its modules to the process.
                [sys.executable, "-P", "-m", "inboxd.engines.vllm_child", str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the daemon, which drains, and needs its engine for that
            )
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=wire.BUFFER)
        launched = cls(process, writer)
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
        patience = CLOSING_S if self._lost is None and self._started.done() else 0.0
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


def environment(gpus: str | None, log: Path) -> dict[str, str]:
    """What vLLM reads from its environment; `gpus` as CUDA_VISIBLE_DEVICES wants them, `log` as `open_log` left it."""
    ours = {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "VLLM_LOGGING_CONFIG_PATH": str(_logging(log)),
    }
    if find_spec("flashinfer") is None:  # else vLLM 0.26 dies for want of it
        ours["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    if gpus is not None:
        ours |= {"CUDA_VISIBLE_DEVICES": gpus, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        if "," not in gpus and not os.environ.keys() & _ALLOCATOR:
            # Keeps memory from breaking into pieces (docs/recycling.md); memory that GPUs share can't be had so.
            ours["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    return ours


def open_log(log: Path, *, keep: bool) -> None:
    """Have vLLM's processes write all to `log`, emptied first unless `keep`; errors to the daemon's stderr too.

    Raises:
        EngineUnusable: the log or the logging configuration beside it can't be written.
    """
    handlers = {
        "file": {"class": "logging.FileHandler", "filename": str(log), "formatter": "plain", "level": "INFO"},
        "stderr": {"class": "logging.StreamHandler", "formatter": "plain", "level": "ERROR"},
    }
    configuration = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s [%(processName)s] %(message)s"}},
        "handlers": handlers,
        "loggers": {"vllm": {"handlers": [*handlers], "level": "INFO", "propagate": False}},
    }
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.open("ab" if keep else "wb").close()
        _logging(log).write_text(json.dumps(configuration))
    except OSError as error:
        raise EngineUnusable(
            f"vLLM's log cannot be kept: {error.filename or log}: {error.strerror}",
            "Give that file to the user that the daemon runs as, or remove it.",
        ) from error


def _logging(log: Path) -> Path:
    return log.with_suffix(".logging.json")
