"""What the daemon and its vLLM process say to each other: typed messages in frames, pixels behind their message."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import msgspec
import numpy as np

_FRAME = struct.Struct("<IQ")  # bytes of the message, bytes of pixels behind it

BUFFER = 2**20
"""Bytes that may lie read ahead on either side."""


class _Message(msgspec.Struct, frozen=True, tag=True):
    """One message."""


# ---------------------------------------------------------------- from the daemon


class Start(_Message, frozen=True):
    """Build the engine."""

    arguments: dict[str, Any]  # vLLM's AsyncEngineArgs


class Read(_Message, frozen=True):
    """Read the page that follows."""

    number: int
    height: int
    width: int
    prompt: str  # the text beside the image
    temperature: float
    top_p: float
    max_tokens: int
    ignore_eos: bool = False  # benchmarks force the length


class Call(_Message, frozen=True):
    """Call a method of `InboxdWorker` in every worker."""

    number: int
    method: str
    arguments: tuple[Any, ...] = ()


class Forget(_Message, frozen=True):
    """Nobody waits for that page any more."""

    number: int


# ---------------------------------------------------------------- from the vLLM process


class Started(_Message, frozen=True):
    """The engine is ready."""

    kv_tokens: int
    pids: tuple[int, ...]


class Unusable(_Message, frozen=True):
    """The engine can't be built; `error` is the exception as it reached us."""

    error: str


class Answer(_Message, frozen=True):
    """A page was read."""

    number: int
    text: str
    finish: str
    tokens_in: int
    tokens_out: int
    logprob: float | None  # of all output tokens together
    first_token_s: float


class Failed(_Message, frozen=True):
    """A page was not read or a call not carried out, and the engine lives; `refused`: vLLM never takes that page."""

    number: int
    reason: str
    refused: bool = False


class Called(_Message, frozen=True):
    """What each worker answered, with the scheduler's last word on itself."""

    number: int
    answers: tuple[Any, ...]
    kv_used: float  # share of the KV cache
    preemptions: int


class Dead(_Message, frozen=True):
    """The engine core died: nothing in flight was read."""

    reason: str


Order = Start | Read | Call | Forget
Reply = Started | Unusable | Answer | Failed | Called | Dead

_encoder = msgspec.msgpack.Encoder()
_orders = msgspec.msgpack.Decoder(Order)
_replies = msgspec.msgpack.Decoder(Reply)


def send(writer: asyncio.StreamWriter, message: Order | Reply, pixels: np.ndarray | None = None) -> None:
    """Queue a message, and the pixels that belong to it, for the other side."""
    body = _encoder.encode(message)
    writer.write(_FRAME.pack(len(body), pixels.nbytes if pixels is not None else 0) + body)
    if pixels is not None:
        writer.write(pixels.tobytes())  # a copy: the page's memory may be another page's before all is sent


async def next_order(reader: asyncio.StreamReader) -> tuple[Order, bytes]:
    """The daemon's next message, and the bytes behind it.

    Raises:
        asyncio.IncompleteReadError: the daemon is gone.
    """
    body, pixels = await _frame(reader)
    return _orders.decode(body), pixels


async def next_reply(reader: asyncio.StreamReader) -> Reply:
    """The vLLM process's next message.

    Raises:
        asyncio.IncompleteReadError: the process is gone.
    """
    body, _ = await _frame(reader)
    return _replies.decode(body)


async def _frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    length, behind = _FRAME.unpack(await reader.readexactly(_FRAME.size))
    return await reader.readexactly(length), await reader.readexactly(behind)
