"""Is this page's text to be trusted? Judged from the pixels, the engine's last word and the text itself."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from inboxd.model import PageState, PageText

BLANK_INK = 0.00001
"""Share of inked pixels (rooms/render/ink.py) below which a page is blank: an empty one has none or next to none on
any paper, one that holds only its number about 0.00003."""

LOOP_RATIO = 0.13
"""zlib ratio below which the authors of LightOnOCR-2 call a generation loopy (arXiv 2601.14251, appendix)."""

LONGEST_TRAINED = 3100
"""Output tokens beyond which LightOnOCR-2 was never trained (same paper): longer output is suspicious."""

_TAIL = 2048  # characters of the end of a text in which a loop shows


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
    if blank and empty:
        return Verdict(PageState.BLANK)
    if blank:
        return Verdict(PageState.SUSPECT, "text was read on a page that looks blank")
    again = PageState.SUSPECT if last_attempt else None
    if empty:
        return Verdict(again, "no text was read, but the page is not blank")
    if text.finish != "stop":
        return Verdict(again, f"the text is cut short: the engine stopped at its limit ({text.finish})")
    if (text.tokens_out or 0) > LONGEST_TRAINED and loops(text.text):
        return Verdict(again, "the text repeats itself")
    return Verdict(PageState.OK)


def loops(text: str) -> bool:
    """Does the end of `text` repeat itself, in words rather than in dot leaders, rules or empty cells?

    Tables of contents, form lines and empty tables compress as well as a loop does, so what repeats must
    hold letters or digits once mark-up is taken away.
    """
    tail = text[-_TAIL:]
    if len(tail) < _TAIL // 2 or _ratio(tail) >= LOOP_RATIO:
        return False
    words = "".join(c if c.isalnum() else " " for c in _without_tags(tail)).split()
    return len(words) > 40 and _ratio(" ".join(words)) < LOOP_RATIO


def _ratio(text: str) -> float:
    raw = text.encode("utf-8", "replace")
    return len(zlib.compress(raw)) / len(raw)


def _without_tags(text: str) -> str:
    out, depth = [], 0
    for c in text:
        depth += c == "<"
        if depth == 0:
            out.append(c)
        depth = max(0, depth - (c == ">"))
    return "".join(out)
