"""A render process: `python -P -m inboxd.rooms.render.worker WIRE SHEETS`, two descriptors, serves the daemon.

It opens and draws the files that are handed to it open, one request at a time. Whatever a file does to it (crash,
hang, hunger) ends this process and nothing else; a file that takes it over finds itself in a sandbox.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from typing import TYPE_CHECKING

from inboxd.rooms.render import confinement, sandbox
from inboxd.rooms.render.documents import Unreadable
from inboxd.rooms.render.messages import (
    MAX_PACKET,
    DocumentOpened,
    Exhausted,
    OpenDocument,
    Ready,
    Reply,
    Request,
    Unfit,
    packed,
    request_in,
    setup_in,
)

if TYPE_CHECKING:
    from inboxd.rooms.render.easel import Easel

_EXHAUSTED = {errno.ENOMEM: "memory", errno.EMFILE: "open files", errno.ENFILE: "open files"}


def main() -> None:
    """Serve until the daemon hangs up."""
    wire = socket.socket(fileno=int(sys.argv[1]))
    setup = setup_in(wire.recv(MAX_PACKET))
    confinement.die_with(setup.parent)
    # Read by OpenCV as it loads: a second guard, behind the check of the header that can say by how much.
    os.environ["OPENCV_IO_MAX_IMAGE_PIXELS"] = str(setup.max_pixels)
    os.environ["OPENCV_LOG_LEVEL"] = "ERROR"
    from inboxd.rooms.render.easel import Easel

    easel = Easel(setup, int(sys.argv[2]))
    confinement.limit(setup.memory_bytes)
    wire.send(packed(Ready(sandbox.enter())))
    while True:
        packet, fds, _, _ = socket.recv_fds(wire, MAX_PACKET, 1)
        if not packet:
            return
        reply = _answer(easel, request_in(packet), fds[0]) if fds else Exhausted("open files")
        for fd in fds:
            os.close(fd)
        wire.send(packed(reply))
        if isinstance(reply, Exhausted):
            return  # whatever is left of this process is not worth saving


def _answer(easel: Easel, request: Request, fd: int) -> Reply:
    try:
        if isinstance(request, OpenDocument):
            return DocumentOpened(easel.open(fd, request.kind).pages)
        return easel.draw(fd, request)
    except Unreadable as error:
        return Unfit(str(error), permanent=True)
    except MemoryError:
        return Exhausted("memory")
    except OSError as error:
        if error.errno in _EXHAUSTED:
            return Exhausted(_EXHAUSTED[error.errno])
        return Unfit(f"cannot be read from the spool: {error.strerror}", permanent=False)


if __name__ == "__main__":
    main()
