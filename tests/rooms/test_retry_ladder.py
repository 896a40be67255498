"""A text that is not to be trusted is read again, as the next attempt, and flagged when no attempt is left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.ledger.clerk import Clerk

from inboxd.core.retrying import RetryPolicy
from inboxd.engines.null import NullEngine
from inboxd.engines.protocol import Limits
from inboxd.formats import render
from inboxd.ledger.opening import Ledger
from inboxd.model import PageFailure, PageImage, PageState, PageText, Reading, Rendered
from inboxd.rooms.bell import Bell
from inboxd.rooms.desk import Desk
from inboxd.rooms.heartbeat import Promises
from inboxd.rooms.reading import ReadingRoom
from inboxd.rooms.vitals import Pulse

POLICY = RetryPolicy(attempts=3, first_delay_s=0, max_delay_s=0, deaths=3)
PATIENCE_S = 20.0
INKED = 0.05

GOOD = PageText("All of it.")
CUT = PageText("Half of", finish="length", tokens_out=4096)
EMPTY = PageText(" \n")
LOOP = PageText("and so on and so on and so forth, " * 200, tokens_out=2000)


class Scripted(NullEngine):
    """An engine that samples: each attempt has an answer of its own. A deterministic one gives only the first."""

    def __init__(self, *answers: PageText | PageFailure, deterministic: bool = False) -> None:
        super().__init__()
        self._answers = answers
        self._deterministic = deterministic
        self.attempts: list[int] = []

    @property
    def limits(self) -> Limits:
        return Limits(1, 1, batch_wait_s=0.0, deterministic=self._deterministic, isolated=True)

    async def read(self, page: PageImage, attempt: int = 1) -> PageText | PageFailure:
        self.attempts.append(attempt)
        return self._answers[attempt - 1]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


async def read_to_the_end(ledger: Ledger, engine: Scripted, ink: float, *warnings: str) -> Reading:
    """One page of one file through the reading room, as often as the desk gives it out."""
    clerk = Clerk(ledger)
    file = clerk.open()
    ended, back, stop = asyncio.Event(), Bell(), asyncio.Event()
    desk = Desk(ledger, clerk.run, POLICY, back, on_complete=ended.set)
    room = ReadingRoom(engine, desk, PATIENCE_S, PATIENCE_S, Pulse(), Promises())
    await room.start()
    image = PageImage(np.full((4, 4, 3), 255, np.uint8), 4, 4, ink, warnings)
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        group.create_task(room.run(stop))
        while not ended.is_set():
            for claim in await desk.claim(8):
                room.offer(Rendered(claim, image, 0.1, time.monotonic()))
            await back.wait(0.05)
        stop.set()
        room.bell.ring()
    with clerk.reader() as reader:
        return reader.reading(file)


@pytest.mark.parametrize(
    ("answers", "state", "text", "says"),
    [
        ([GOOD], PageState.OK, "All of it.", ""),
        ([CUT, GOOD], PageState.OK, "All of it.", ""),
        ([EMPTY, CUT, GOOD], PageState.OK, "All of it.", ""),
        ([LOOP, GOOD], PageState.OK, "All of it.", ""),
        ([CUT, CUT, CUT], PageState.SUSPECT, "Half of", "cut short: the engine stopped at its limit (length)"),
        ([EMPTY, EMPTY, EMPTY], PageState.SUSPECT, "", "no text was read, but the page is not blank"),
        ([CUT, EMPTY, LOOP], PageState.SUSPECT, LOOP.text, "repeats itself"),
        ([PageFailure("the engine choked"), CUT, CUT], PageState.SUSPECT, "Half of", "cut short"),
    ],
)
def test_the_ladder(
    ledger: Ledger, answers: list[PageText | PageFailure], state: PageState, text: str, says: str
) -> None:
    engine = Scripted(*answers)
    reading = asyncio.run(read_to_the_end(ledger, engine, 0.02))
    (page,) = reading.pages
    assert (page.state, page.text.strip(), page.attempts) == (state, text.strip(), len(answers))
    assert engine.attempts == list(range(1, len(answers) + 1))
    assert says in page.reason
    assert bool(page.reason) == (state is PageState.SUSPECT)
    outputs = render(reading, ["md", "json", "txt"])
    for output in outputs.values():
        assert page.reason.encode() in output
    assert (b"Check this text against the original" in outputs["md"]) == (state is PageState.SUSPECT)


@pytest.mark.parametrize("answer", [CUT, EMPTY])
def test_an_engine_that_reads_the_same_again_is_not_asked_again(ledger: Ledger, answer: PageText) -> None:
    engine = Scripted(answer, deterministic=True)
    (page,) = asyncio.run(read_to_the_end(ledger, engine, INKED)).pages
    assert (page.state, engine.attempts) == (PageState.SUSPECT, [1])


@pytest.mark.parametrize(
    ("answer", "ink", "warnings", "state"),
    [
        (PageText(""), 0.0, (), PageState.BLANK),
        (PageText("The Art of War"), 0.0, (), PageState.SUSPECT),
        (PageText(""), 0.0, ("MuPDF says: an image is broken",), PageState.SUSPECT),
        (PageText("17"), 0.00003, (), PageState.OK),
        (PageText("fine"), INKED, ("the font SimSun is not embedded: a substitute was drawn",), PageState.OK),
    ],
)
def test_what_the_pixels_say_is_not_asked_again(
    ledger: Ledger, answer: PageText, ink: float, warnings: tuple[str, ...], state: PageState
) -> None:
    engine = Scripted(answer)
    (page,) = asyncio.run(read_to_the_end(ledger, engine, ink, *warnings)).pages
    assert (page.state, page.warnings, engine.attempts) == (state, warnings, [1])
    assert bool(page.reason) == (state is PageState.SUSPECT)
