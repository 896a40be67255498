"""Character error rate: how many characters must be changed, added or dropped to turn a reading into the truth.

Two measures. Both leave out list bullets, on which the truths do not agree, and join lines that end in a hyphen,
since the truths are not broken into lines. Strict: NFC, and runs of white space count as one space, or not at all
in Chinese and Japanese, which are written without. Lenient: NFKC, and white space and the shape of quotes, dashes
and tildes are ignored too, so that what remains are letters misread.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

_FOLDED = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′´`", "'"),
        **dict.fromkeys("“”„‟″«»「」『』", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("〜～∼", "~"),
    }
)
_BULLET = re.compile(r"^\s*[•·・∙‧]\s*", re.MULTILINE)
_BROKEN = re.compile(r"-\n\s*")


@dataclass(frozen=True, slots=True)
class Score:
    """Edits needed, and characters in the truth; sums of scores weigh pages by their length."""

    edits: int = 0
    characters: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(self.edits + other.edits, self.characters + other.characters)

    @property
    def rate(self) -> float:
        """Edits for each character of the truth."""
        return self.edits / max(1, self.characters)


def strict(reading: str, truth: str, language: str) -> Score:
    """Compare as written, in the language's way with white space."""
    space = "" if language.startswith(("zh", "ja")) else " "
    return _score(*(space.join(unicodedata.normalize("NFC", _bare(text)).split()) for text in (reading, truth)))


def lenient(reading: str, truth: str) -> Score:
    """Compare the letters only."""
    return _score(*(_letters(text) for text in (reading, truth)))


def _bare(text: str) -> str:
    return _BROKEN.sub("-", _BULLET.sub("", text))


def _letters(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", _bare(text)).translate(_FOLDED).split())


def _score(reading: str, truth: str) -> Score:
    return Score(Levenshtein.distance(reading, truth), len(truth))
