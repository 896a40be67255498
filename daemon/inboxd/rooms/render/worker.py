"""A render process: `python -P -m inboxd.rooms.render.worker FD` serves the pool at the other end of the socket FD.

It opens and draws what it is told to, one request at a time. Whatever a file does to it (crash, hang, hunger) ends
this process and nothing else.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from typing import TYPE_CHECKING

from inboxd.rooms.render import confinement
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
_SLACK = 1024 * 1024  # bytes, beyond a raster, of what a worker may write into one file: the decoders' words


def main() -> None:
    """Serve until the pool hangs up."""
    wire = socket.socket(fileno=int(sys.argv[1]))
    setup = setup_in(wire.recv(MAX_PACKET))
    confinement.die_with(setup.parent)
    # Read by OpenCV as it loads: a second guard, behind the check of the header that can say by how much.
    os.environ["OPENCV_IO_MAX_IMAGE_PIXELS"] = str(setup.max_pixels)
    os.environ["OPENCV_LOG_LEVEL"] = "ERROR"
    from inboxd.rooms.render.easel import Easel

    easel = Easel(setup)
    confinement.limit(setup.memory_bytes, easel.largest_raster + _SLACK)
    wire.send(packed(Ready()))
    while packet := wire.recv(MAX_PACKET):
        reply, raster = _answer(easel, request_in(packet))
        socket.send_fds(wire, [packed(reply)], [] if raster is None else [raster])
        if raster is not None:
            os.close(raster)
        if isinstance(reply, Exhausted):
            return  # whatever is left of this process is not worth saving


def _answer(easel: Easel, request: Request) -> tuple[Reply, int | None]:
    """The reply, and the raster that goes with it."""
    try:
        if isinstance(request, OpenDocument):
            return DocumentOpened(easel.open(request.path, request.kind).pages), None
        return easel.draw(request.path, request.kind, request.number)
    except Unreadable as error:
        return Unfit(str(error), permanent=True), None
    except MemoryError:
        return Exhausted("memory"), None
    except OSError as error:
        if error.errno in _EXHAUSTED:
            return Exhausted(_EXHAUSTED[error.errno]), None
        return Unfit(f"cannot be read from the spool: {error.strerror}", permanent=False), None


if __name__ == "__main__":
    main()
