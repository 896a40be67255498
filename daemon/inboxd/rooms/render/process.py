"""The daemon's end of one render process: given errands, up to two at a time, and known to be dead when it is."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections import deque
from collections.abc import Callable

import msgspec

from inboxd.core.showing import one_line
from inboxd.rooms.render.child import Child
from inboxd.rooms.render.errands import Errand, Nonsense
from inboxd.rooms.render.messages import MAX_PACKET, Exhausted, Ready, Reply, Setup, Unfit, packed, reply_in
from inboxd.rooms.render.sheets import Sheets, sheet_bytes

DEPTH = 2
"""Errands in a process's hands: the one it is on, and one more, so that it never waits for the daemon's attention."""

_OURS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}  # no fault of the file that can't be opened

START_TIMEOUT = 120.0  # seconds; loading takes less than one of CPU, on a machine that may have much else to do


class RendererDied(Exception):
    """The process is gone; the message says how, to follow 'the renderer'."""


class RenderProcess:
    """One worker, from its start to its end; all from the loop's thread."""

    def __init__(
        self,
        setup: Setup,
        page_timeout: float,
        on_room: Callable[[], None],
        on_end: Callable[[RenderProcess, str, Errand | None, list[Errand]], None],
    ) -> None:
        """Start it; `ready` waits until it can be given errands.

        `on_room` is called when it can take one more; `on_end`, once, when it is no more, with how that came about,
        the errand that it died over, and those that it never began.

        Raises:
            OSError: no process can be started.
        """
        self._loop = asyncio.get_running_loop()
        self._setup = setup
        self._page_timeout = page_timeout
        self._on_room = on_room
        self._on_end = on_end
        self.path: bytes | None = None  # of the document that it was last asked about
        self.answers = 0
        self._errands: deque[Errand] = deque()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._retiring = False
        self._is_deaf = False  # it hung up before the last errand reached it
        self._end: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.lacks: tuple[str, ...] = ()  # what its sandbox is without, in words
        self._sheets = Sheets(sheet_bytes(setup.longest_edge, setup.grid), self._sheet_returned)
        try:
            self._child = Child(self._sheets.fd)
        finally:
            self._sheets.hand_over()
        self._loop.add_reader(self._child.wire, self._on_packet)
        self._send(packed(setup), START_TIMEOUT)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def load(self) -> int:
        """Errands in its hands."""
        return len(self._errands)

    @property
    def has_room(self) -> bool:
        """Whether it can take an errand."""
        return self._end is None and not self._is_deaf and self.load < DEPTH and self._sheets.any_free

    async def ready(self) -> None:
        """Wait until it has loaded.

        Raises:
            RendererDied: it has not.
        """
        await asyncio.shield(self._ready)

    def take(self, errand: Errand) -> None:
        """Do an errand, after the one that it is on. Needs room."""
        try:
            fd = errand.open()
        except OSError as error:
            if error.errno in _OURS:
                errand.answer.set_exception(RendererDied(f"could not be handed the file ({error.strerror})"))
            else:
                why = f"cannot be read from the spool: {error.strerror}"
                errand.answer.set_result(Unfit(why, permanent=False))
            return
        self.path = errand.path
        self._errands.append(errand)
        self._send(packed(errand.request(self._sheets)), self._page_timeout if self.load == 1 else None, fd)
        os.close(fd)

    def retire(self) -> None:
        """End once the errands in its hands are done; none are given to it any more."""
        self._retiring = True
        if not self._errands:
            self._finish("has been relieved")

    async def end(self) -> None:
        """Kill it, and wait until it is no more. Idempotent."""
        await asyncio.shield(self._finish("was not needed any more"))

    def _send(self, packet: bytes, timeout: float | None, *fds: int) -> None:
        try:
            socket.send_fds(self._child.wire, [packet], fds)
        except OSError:  # its last words, or its end, are still to be heard
            self._is_deaf = True
        if timeout is not None:
            self._timer = self._loop.call_later(timeout, self._finish, f"gave no answer within {timeout:g} s")

    def _on_packet(self) -> None:
        try:
            packet = self._received()
        except BlockingIOError:
            return
        if not packet:
            self._finish("")
            return
        try:
            self._heard(reply_in(packet))
        except (msgspec.DecodeError, Nonsense):
            self._finish("gave an answer that makes no sense")

    def _received(self) -> bytes:
        """Its next packet; nothing where it has hung up."""
        try:
            return self._child.wire.recv(MAX_PACKET)
        except ConnectionResetError:  # it left with a request unread: said once, and before its last words
            return self._child.wire.recv(MAX_PACKET)

    def _heard(self, reply: Reply) -> None:
        """Act on a reply. A hostile file may be speaking: nothing is taken on trust.

        Raises:
            Nonsense: it cannot be one.
        """
        if isinstance(reply, Exhausted):
            allowed = f" (memory_bytes = {self._setup.memory_bytes:,})" if reply.what == "memory" else ""
            self._finish(f"ran out of {one_line(reply.what)}{allowed}")
            return
        if not self._ready.done():
            if not isinstance(reply, Ready):
                raise Nonsense
            self.lacks = tuple(map(one_line, reply.lacks))
            self._ready.set_result(None)
        elif self._errands:
            errand = self._errands[0]
            answer = errand.understood(reply, self._sheets, self._setup)
            self._errands.popleft()
            self.answers += 1
            if not errand.answer.done():  # else nobody waits for it any more
                errand.answer.set_result(answer)
        else:
            raise Nonsense
        if self._timer:
            self._timer.cancel()
        if self._errands:
            due = self._page_timeout
            self._timer = self._loop.call_later(due, self._finish, f"gave no answer within {due:g} s")
        elif self._retiring:
            self._finish("has been relieved")
            return
        self._on_room()

    def _finish(self, why: str) -> asyncio.Task[None]:
        """Begin the end: `why`, or "" when it has ended by itself."""
        if self._end is None:
            self._loop.remove_reader(self._child.wire)
            if self._timer:
                self._timer.cancel()
            self._end = self._loop.create_task(self._bury(why))
        return self._end

    async def _bury(self, why: str) -> None:
        # On a thread, since a giant takes its time to die.
        manner = await asyncio.to_thread(self._child.bury, kill=bool(why))
        how = why or manner
        del self._sheets  # the memory goes with the last page that lies there
        if not self._ready.done():
            self._ready.set_exception(RendererDied(how))
            self._ready.exception()  # it may be that nobody waits
        reached = self.load - 1 if self._is_deaf else self.load
        blamed = self._errands.popleft() if reached > 0 else None
        self._on_end(self, how, blamed, list(self._errands))

    def _sheet_returned(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is no more
            self._loop.call_soon_threadsafe(self._on_room)
