"""A page's last word: the reading that goes into the ledger and the outputs, whichever way the page went."""

from __future__ import annotations

from dataclasses import dataclass

from inboxd.core.verdict import Verdict
from inboxd.model import PageImage, PageReading, PageState, PageText


@dataclass(frozen=True, slots=True)
class ReadBy:
    """Who read a page."""

    engine: str = ""
    model: str = ""


NOBODY = ReadBy()


def read(
    number: int, image: PageImage, text: PageText, verdict: Verdict, by: ReadBy, *, attempts: int, seconds: float
) -> PageReading:
    """The page was read, and `verdict` is final."""
    assert verdict.state is not None, "a page that is to be read again has no last word yet"
    return PageReading(
        number=number,
        state=verdict.state,
        reason=verdict.reason,
        text=text.text,
        width=image.width,
        height=image.height,
        engine=by.engine,
        model=by.model,
        attempts=attempts,
        seconds=seconds,
        confidence=text.confidence,
        finish=text.finish,
        tokens_in=text.tokens_in,
        tokens_out=text.tokens_out,
        turned=text.turned,
        boxes=text.boxes,
        warnings=image.warnings,
    )


def unread(number: int, reason: str, by: ReadBy, *, attempts: int, seconds: float = 0.0) -> PageReading:
    """The page could not be rendered or read; the document comes out without it."""
    return PageReading(
        number=number,
        state=PageState.FAILED,
        reason=reason,
        text="",
        width=0,
        height=0,
        engine=by.engine,
        model=by.model,
        attempts=attempts,
        seconds=seconds,
    )
