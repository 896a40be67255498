"""The daemon's end of one render process: started, asked, and known to be dead when it is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys

import msgspec

from inboxd.rooms.render.decoder_words import MEMORY, tidied
from inboxd.rooms.render.messages import MAX_PACKET, Ready, Reply, Request, Setup, packed, reply_in

START_TIMEOUT = 120.0  # seconds; loading takes less than one of CPU, on a machine that may have much else to do
_LAST_WORDS = 4096  # bytes
_GRACE = 2.0  # seconds that a process which hung up may take to end


class RendererDied(Exception):
    """The process is gone; the message says how, to follow 'the renderer'."""


class RenderProcess:
    """One `worker`. Asked one thing at a time, from the loop's thread.

    That thread also has to live as long as the process: a process asks the kernel to end it with its parent, and to
    the kernel the parent is the thread that started it.
    """

    def __init__(self, setup: Setup) -> None:
        """Start it; `ready` waits until it can be asked.

        Raises:
            OSError: no process can be started.
        """
        self._setup = setup
        self.path: bytes | None = None  # of the document that it opened last
        self.answers = 0  # that it gave
        self._words = os.memfd_create(MEMORY, os.MFD_CLOEXEC)
        self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._wire.setblocking(False)
        try:
            with theirs:
                self._process = subprocess.Popen(
                    # -P: the folder that we happen to be in must not lend its modules to the worker.
                    [sys.executable, "-P", "-m", "inboxd.rooms.render.worker", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._words,
                    start_new_session=True,  # out of reach of the terminal's Ctrl-C from the first instant
                )
        except OSError:
            self._wire.close()
            os.close(self._words)
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    async def ready(self) -> None:
        """Wait until it has loaded.

        Raises:
            RendererDied: it has not.
        """
        reply, _ = await self._exchanged(packed(self._setup), START_TIMEOUT)
        if not isinstance(reply, Ready):
            raise await self._buried("did not say that it is ready")

    async def ask(self, request: Request, timeout: float) -> tuple[Reply, int | None]:
        """Its reply, and the descriptor that came with it, which is the caller's now.

        Raises:
            RendererDied: there was none within `timeout` seconds; the process is gone.
        """
        self.path = request.path
        reply = await self._exchanged(packed(request), timeout)
        self.answers += 1
        return reply

    async def end(self) -> None:
        """Kill it. Idempotent."""
        await self._buried("was not needed any more")

    async def _exchanged(self, packet: bytes, timeout: float) -> tuple[Reply, int | None]:
        try:
            self._wire.send(packet)
            async with asyncio.timeout(timeout):
                packet, descriptors = await self._packet()
        except TimeoutError as error:
            raise await self._buried(f"gave no answer within {timeout:g} s") from error
        except OSError as error:  # it has hung up
            raise await self._buried("") from error
        if not packet:
            raise await self._buried("")
        try:
            return reply_in(packet), descriptors[0] if descriptors else None
        except msgspec.DecodeError as error:
            for descriptor in descriptors:
                os.close(descriptor)
            raise await self._buried("gave an answer that makes no sense") from error

    async def _packet(self) -> tuple[bytes, list[int]]:
        """The next packet and what came with it; empty when the process has hung up."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                packet, descriptors, _, _ = socket.recv_fds(self._wire, MAX_PACKET, 1, socket.MSG_CMSG_CLOEXEC)
                return packet, descriptors
            except BlockingIOError:
                readable = asyncio.Event()
                loop.add_reader(self._wire, readable.set)
                try:
                    await readable.wait()
                finally:
                    loop.remove_reader(self._wire)

    async def _buried(self, why: str) -> RendererDied:
        """End the process and say how it went: `why`, or if that is empty, as it ended by itself."""
        # On a thread, since a giant takes its time to die; shielded, so that a cancelled caller leaves none behind.
        code = await asyncio.shield(asyncio.to_thread(self._ended, bool(why)))
        if self._wire.fileno() < 0:  # buried before
            return RendererDied(why)
        words = tidied(os.pread(self._words, _LAST_WORDS, max(0, os.fstat(self._words).st_size - _LAST_WORDS)))
        self._wire.close()
        os.close(self._words)
        return RendererDied(why or f"{_manner(code)}{f' ({words[-1]})' if words and code > 0 else ''}")

    def _ended(self, at_once: bool) -> int:
        """The exit code, once the process is no more."""
        if not at_once:
            with contextlib.suppress(subprocess.TimeoutExpired):  # it closed the socket, and lives
                return self._process.wait(_GRACE)
        self._process.kill()
        return self._process.wait()


def _manner(code: int) -> str:
    if code == -signal.SIGKILL:
        return "was killed, perhaps since the machine ran out of memory"
    if code < 0:
        return f"crashed ({signal.Signals(-code).name})"
    return f"ended with exit code {code}"
