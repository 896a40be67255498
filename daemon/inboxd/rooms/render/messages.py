"""What the daemon and a render worker say to each other, one JSON message a packet.

Plain typed data, never pickle: a worker that a hostile file has taken over must not be able to run code in the daemon.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from inboxd.model import Kind

MAX_PACKET = 64 * 1024  # bytes

Natural = Annotated[int, msgspec.Meta(ge=1)]


class _Message(msgspec.Struct, frozen=True, tag=True):
    """One packet."""


class Setup(_Message, frozen=True):
    """First to a worker: whose child it is, and its limits."""

    parent: int
    memory_bytes: int
    max_pages: int
    max_pixels: int
    longest_edge: int
    grid: int


class OpenDocument(_Message, frozen=True):
    """Say whether the document, whose open descriptor comes along, can be read."""

    kind: Kind


class RenderPage(_Message, frozen=True):
    """Render a page, counted from 1, of the document whose open descriptor comes along, onto a sheet."""

    kind: Kind
    number: int
    sheet: int


class Ready(_Message, frozen=True):
    """From a worker that has loaded and is confined, as far as this machine can do that."""

    lacks: tuple[str, ...] = ()


class DocumentOpened(_Message, frozen=True):
    """It can be read."""

    pages: Natural


class PageRendered(_Message, frozen=True):
    """The page lies on its sheet."""

    width: Natural
    height: Natural
    ink: Annotated[float, msgspec.Meta(ge=0, le=1)]
    warnings: tuple[str, ...]


class Unfit(_Message, frozen=True):
    """This document or page can't be read; not now, or not ever."""

    reason: str
    permanent: bool


class Exhausted(_Message, frozen=True):
    """It needs more of something than a worker may have; the worker ends with this word."""

    what: str


Request = OpenDocument | RenderPage
Reply = Ready | DocumentOpened | PageRendered | Unfit | Exhausted

_setup = msgspec.json.Decoder(Setup)
_request = msgspec.json.Decoder(Request)
_reply = msgspec.json.Decoder(Reply)

packed = msgspec.json.Encoder().encode


def setup_in(packet: bytes) -> Setup:
    """The first message to a worker.

    Raises:
        msgspec.DecodeError: it is another one, or none.
    """
    return _setup.decode(packet)


def request_in(packet: bytes) -> Request:
    """A later message to a worker.

    Raises:
        msgspec.DecodeError: as above.
    """
    return _request.decode(packet)


def reply_in(packet: bytes) -> Reply:
    """A message from a worker.

    Raises:
        msgspec.DecodeError: as above; the worker is not to be trusted any more.
    """
    return _reply.decode(packet)
