"""Is this page's text to be trusted? Judged from the pixels, the engine's last word and the text itself.

How often these judgements are right is measured on a labelled set (bench/verdicts.py), figures in docs/accuracy.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from inboxd.core.loops import letters, loops
from inboxd.model import PageState, PageText

BLANK_INK = 0.00001
"""Share of inked pixels (rooms/render/ink.py) below which a page is blank: an empty one has none or next to none on
any paper, one that holds only its number about 0.00003."""

LONGEST_TRAINED = 3100
"""Output tokens beyond which LightOnOCR-2 was never trained (arXiv 2601.14251): longer output is suspicious."""

LEAST_INK = 0.000002
"""Share of the page that one letter inks at the very least, by measure of drawn A4 pages: 0.00002 to 0.00004 in print
of 10 points, 0.00001 of 5.5; only grey print that is too small to be read comes below this."""

FADED_INK = 0.0000002
"""The same for an engine that finds the lines on the page one by one. It can't make them up, so faded print is
believed; but it may read the reverse through the paper."""

LOOP_INK = 0.000006
"""The same for a text that repeats itself: print that comes close to this is small, and the text rather a loop. Beyond
LONGEST_TRAINED it is twice that."""

NO_IMAGE_DRAWN = "the page holds an image, but nothing was drawn"
NO_TEXT_DRAWN = "the page holds text, but nothing was drawn"
LOST = frozenset({NO_IMAGE_DRAWN, NO_TEXT_DRAWN})
"""What a decoder says when what the page is about is not in the pixels: other remarks don't decide anything."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with a page that was read: a final state with its reason, or read it again."""

    state: PageState | None  # None: read it again
    reason: str = ""


def judge(text: PageText, *, ink: float, warnings: tuple[str, ...], last_attempt: bool) -> Verdict:
    """Judge one reading.

    `ink` is the share of the page that differs from the paper; `warnings` are the decoder's. Trouble that
    another attempt may cure asks for one, unless this was the last.
    """
    blank = ink < BLANK_INK
    empty = not text.text.strip()
    if blank and warnings:
        return Verdict(PageState.SUSPECT, f"looks blank, but {warnings[0]}")
    if lost := next((warning for warning in warnings if warning in LOST), ""):
        return Verdict(PageState.SUSPECT, lost)
    if blank and empty:
        return Verdict(PageState.BLANK)
    if blank:
        return Verdict(PageState.SUSPECT, "text was read on a page that looks blank")
    reason = _doubt(text, ink)
    if reason:
        return Verdict(PageState.SUSPECT if last_attempt else None, reason)
    return Verdict(PageState.OK)


def _doubt(text: PageText, ink: float) -> str:
    """Why the text of an inked page is not to be trusted; "" when it is."""
    if not text.text.strip():
        return "no text was read, but the page is not blank"
    repeats = loops(text.text)  # which many a right text does, so it takes a second witness
    if text.finish != "stop":
        how = "repeats itself and " if repeats else ""
        return f"the text {how}is cut short: the engine stopped at its limit ({text.finish})"
    count = letters(text.text)
    found = bool(text.boxes) and text.tokens_out is None  # line by line, not written by a model that need not look
    if ink < (FADED_INK if found else LEAST_INK) * count:
        return "more text was read than there is ink on the page"
    if repeats and not found and ink < LOOP_INK * count * (2 if (text.tokens_out or 0) > LONGEST_TRAINED else 1):
        return "the text repeats itself, and there is too little ink on the page for so much of it"
    return ""
