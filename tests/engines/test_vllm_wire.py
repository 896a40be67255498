"""What the daemon and its vLLM process say to each other arrives as it was sent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.engines import vllm_wire as wire

READ = wire.Read(7, height=2, width=3, prompt="", temperature=0.2, top_p=0.9, max_tokens=4096)


@asynccontextmanager
async def ends() -> AsyncIterator[tuple[asyncio.StreamWriter, asyncio.StreamReader]]:
    """Something to write to, and what comes out at the other side."""
    ours, theirs = socket.socketpair()
    _, writer = await asyncio.open_unix_connection(sock=ours, limit=wire.BUFFER)
    reader, other = await asyncio.open_unix_connection(sock=theirs, limit=wire.BUFFER)
    try:
        yield writer, reader
    finally:
        writer.close()
        other.close()
        await asyncio.gather(writer.wait_closed(), other.wait_closed())


def test_a_page_arrives_with_its_pixels_and_the_next_message_after_it() -> None:
    async def both() -> None:
        pixels = np.random.default_rng(0).integers(0, 256, (1540, 1092, 3), np.uint8)
        async with ends() as (writer, reader):
            wire.send(writer, READ, pixels)
            wire.send(writer, wire.Forget(7))
            order, raw = await wire.next_order(reader)
            assert order == READ
            assert np.array_equal(np.frombuffer(raw, np.uint8).reshape(pixels.shape), pixels)
            assert await wire.next_order(reader) == (wire.Forget(7), b"")

    asyncio.run(both())


def test_a_page_is_sent_as_it_was_even_if_its_memory_becomes_another_page() -> None:
    async def both() -> None:
        pixels = np.zeros((1540, 1092, 3), np.uint8)
        async with ends() as (writer, reader):
            wire.send(writer, READ, pixels)
            pixels[:] = 255
            _, raw = await wire.next_order(reader)
            assert not np.frombuffer(raw, np.uint8).any()

    asyncio.run(both())


@given(text=st.text(), logprob=st.floats(allow_nan=False))
def test_an_answer_arrives_whatever_stands_in_it(text: str, logprob: float) -> None:
    answer = wire.Answer(1, text, "stop", 2173, 700, logprob, 0.5)

    async def one() -> None:
        async with ends() as (writer, reader):
            wire.send(writer, answer)
            assert await wire.next_reply(reader) == answer

    asyncio.run(one())


def test_the_end_of_one_side_is_news_to_the_other() -> None:
    async def end() -> None:
        async with ends() as (writer, reader):
            writer.close()
            with pytest.raises(asyncio.IncompleteReadError):
                await wire.next_reply(reader)

    asyncio.run(end())
