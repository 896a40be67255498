"""What a person's search words mean to SQLite, and the piece of a page that shows them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_WORDS = re.compile(r'"([^"]*)"|(\S+)')
_TRIGRAM = 3
"""Characters below which the search index knows nothing of a word."""
_BEFORE, _AFTER = 50, 90
"""Characters shown around the first word found."""


def words_of(given: str) -> list[str]:
    """The words to be found, all of them; "several in double quotes" are one. Nothing in them is an operator."""
    text = unicodedata.normalize("NFC", given.replace("\0", " "))
    return [word for match in _WORDS.finditer(text) if (word := (match[1] or match[2] or "").strip())]


def can_be_text(words: str) -> bool:
    """Whether SQLite takes it: bytes that are not UTF-8 come as surrogates, and stand in no text of the ledger."""
    return not any("\ud800" <= character <= "\udfff" for character in words)


def match_of(words: Sequence[str]) -> str:
    """The FTS5 expression for the words that the index knows; empty when it knows none."""
    return " ".join('"' + word.replace('"', '""') + '"' for word in words if len(word) >= _TRIGRAM)


def likes_of(words: Sequence[str]) -> list[tuple[str, str, str]]:
    """For each word that is too short for the index, three LIKE patterns, of which one must hold.

    LIKE ignores case in ASCII only, so other scripts are tried in small, large and title letters.
    """
    short = (word for word in words if len(word) < _TRIGRAM)
    return [(_like(word.lower()), _like(word.upper()), _like(word.title())) for word in short]


def snippet_of(text: str, words: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """One line of `text` around the first of the words, and where they stand in it."""
    any_word = re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)), re.IGNORECASE)
    first = any_word.search(text)
    at = first.start() if first else 0
    begin, end = max(0, at - _BEFORE), at + _AFTER
    shown = " ".join(text[begin:end].split())
    shown = ("…" if begin else "") + shown + ("…" if end < len(text) else "")
    return shown, tuple(match.span() for match in any_word.finditer(shown))


def _like(word: str) -> str:
    return "%" + re.sub(r"([%_\\])", r"\\\1", word) + "%"
