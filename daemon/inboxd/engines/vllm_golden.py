"""The golden page of the vLLM engine: a model that cannot read it is not let near a person's pages."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable
from importlib import resources

import cv2
import numpy as np

from inboxd.errors import EngineUnusable
from inboxd.model import PageFailure, PageImage, PageText

LINES = (
    "Please read this page before work.",
    "The first letter came in 1954 and",
    "was kept in the office for 27 years.",
    "Invoice No. 2041, total 318.50",
    "was paid by the company in March.",
)

LIKENESS = 0.95
"""Share of the text that must be right: a working model misses nothing here, a broken one everything."""

MAX_TOKENS = 400
"""A model that loops is told from one that reads without waiting for its longest output."""


async def misread(
    read: Callable[[PageImage], Awaitable[PageText | PageFailure]], grid: int, times: int, *, known: bool
) -> str | None:
    """What is wrong with the golden page, read so many `times` at once; None if nothing is.

    A model that is not expected to know it (`known`) may read on it what it likes, but must read it. The first page of
    an engine is this one, alone: it loads the model's processor, which vLLM else does on each of its threads at once, a
    minute long.

    Raises:
        EngineLost: what `read` raises.
    """
    golden = page(grid)
    answers = await asyncio.gather(*(read(golden) for _ in range(times)))
    reasons = [
        reason
        for answer in answers
        if (known or isinstance(answer, PageFailure)) and (reason := wrong(answer)) is not None
    ]
    if not reasons:
        return None
    return f"{len(reasons)} of {times} times {reasons[0]}" if times > 1 else reasons[0]


def page(grid: int) -> PageImage:
    """The picture, padded white to the model's grid.

    Raises:
        EngineUnusable: the picture in the package is damaged.
    """
    raw = resources.files("inboxd.engines").joinpath("data/golden_print.png").read_bytes()
    picture = cv2.imdecode(np.frombuffer(raw, np.uint8), cv2.IMREAD_COLOR_RGB)
    if picture is None:
        raise EngineUnusable("the test page of the engines is damaged", "Install inboxd again.")
    height, width = picture.shape[:2]
    padded = np.full((-(-height // grid) * grid, -(-width // grid) * grid, 3), 255, np.uint8)
    padded[:height, :width] = picture
    return PageImage(pixels=padded, width=width, height=height, ink=0.05)


def wrong(answer: PageText | PageFailure) -> str | None:
    """What is wrong with an answer to the golden page, for a person; None if it was read."""
    if isinstance(answer, PageFailure):
        return answer.reason
    if answer.finish != "stop":
        return f"it wrote on and on ({answer.finish} after {answer.tokens_out} tokens): {_start(answer.text)}"
    if likeness(answer.text) < LIKENESS:
        return f"it read {_start(answer.text)} instead of {_start(' '.join(LINES))}"
    return None


def likeness(text: str) -> float:
    """How much of the golden text is in `text`, 0 to 1; Markdown marks and line breaks do not count."""
    words = " ".join(text.replace("#", " ").replace("*", " ").split())
    return difflib.SequenceMatcher(None, words, " ".join(LINES), autojunk=False).ratio()


def _start(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat[:60] + "…" if len(flat) > 60 else flat)
