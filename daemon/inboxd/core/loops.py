"""Does a text repeat itself, in words rather than in dot leaders, rules or empty cells?"""

from __future__ import annotations

import re
import zlib

LOOP_RATIO = 0.13
"""zlib ratio below which the authors of LightOnOCR-2 call a generation loopy (arXiv 2601.14251, appendix)."""

_STRETCHES = (2048, 4096)  # letters: the first sees a loop among other text, the second one of whole paragraphs
_SHORTEST = 1024  # letters
# Mark-up, entities and the commands of formulas are not on the page. What begins with < and does not end soon is text.
_MARKUP = re.compile(r"</?[A-Za-z][^<>]{0,200}>|&#?\w{1,8};|\\[A-Za-z]+")
_GAP = re.compile(r"[\W_]+")
_COUNT = re.compile(r"\d+")
_WIDE = "\u2e80"  # from here on a letter is a syllable or a word, and takes as much ink as several


def loops(text: str) -> bool:
    """Whether some stretch of `text` says one thing over and over, counting perhaps.

    Tables of contents, form lines and empty tables compress as well as a loop does, so only letters and digits are
    looked at. Verse, lists and forms may say the same over and over with every right: that `text` loops is no proof
    that it is wrong.
    """
    words = _COUNT.sub("0", _GAP.sub(" ", _MARKUP.sub(" ", text))).strip()
    return any(
        _ratio(words[begin : begin + size]) < LOOP_RATIO
        for size in _STRETCHES
        for begin in range(0, max(len(words) - size, 0) + 1, size // 2)
    )


def letters(text: str) -> int:
    """How much `text` has to be printed: letters and digits without mark-up, an ideograph counted as three."""
    plain = _MARKUP.sub(" ", text)
    return sum((3 if c >= _WIDE else 1) for c in plain if c.isalnum())


def _ratio(text: str) -> float:
    if len(text) < _SHORTEST:
        return 1.0
    raw = text.encode("utf-8", "replace")
    return len(zlib.compress(raw)) / len(raw)
