"""What a model writes, as Markdown and boxes: each family marks figures, blocks and formulas its own way."""

from __future__ import annotations

import re
import unicodedata

from inboxd.model import Box

_ESCAPED_MATH = re.compile(r"\\\$([^$\n]+?)\\\$")
_IN_MATH = re.compile(r"\\[A-Za-z]+|[\^_={}]|^\\?[A-Za-z]$")
_PROSE = re.compile(r"[A-Za-z]{2,}\s+[A-Za-z]{2,}")
_COMMAND_TEXT = re.compile(r"\\[A-Za-z]+(?:\{[^{}]*\})?")

_FIGURE = re.compile(r"!\[(?P<label>[^\]]*)\]\((?P<target>[^)]*)\)\s?(?P<place>\d{1,4},\d{1,4},\d{1,4},\d{1,4})")
_BLOCK = re.compile(r"!\[(?P<label>[A-Za-z_][\w-]*)(?P<more>\+?)\]\(\s*(?P<place>\d+\s*(?:,\s*\d+\s*){3})\)[ \t]*")

_THOUSAND = 1000
"""Both of LightOnOCR's ways of saying where something is count thousandths of the page."""


def read(text: str, dialect: str, width: int, height: int, confidence: float) -> tuple[str, tuple[Box, ...]]:
    """The text as Markdown in NFC, and what the model placed, in pixels of a page of `width` × `height`.

    Boxes get the page's `confidence`: the model gives none of its own.
    """
    text = unicodedata.normalize("NFC", text).strip()  # never NFKC, which makes 11/2 of 1½
    match dialect:
        case "lightonocr":
            return mended_math(text), ()
        case "lightonocr-bbox":
            return _with_figures(mended_math(text), width, height, confidence)
        case "lightonocr-grounding":
            return _with_blocks(mended_math(text), width, height, confidence)
        case _:
            return text, ()


def mended_math(text: str) -> str:
    r"""Formulas that the model wrote between escaped dollars, `\$x^2\$`, as `$x^2$`; prices keep their escapes."""
    return _ESCAPED_MATH.sub(lambda found: f"${found[1]}$" if _is_math(found[1]) else found[0], text)


def _is_math(body: str) -> bool:
    return bool(_IN_MATH.search(body.strip())) and not _PROSE.search(_COMMAND_TEXT.sub(" ", body))


def _with_figures(text: str, width: int, height: int, confidence: float) -> tuple[str, tuple[Box, ...]]:
    boxes = tuple(_box(found["label"], found["place"], width, height, confidence) for found in _FIGURE.finditer(text))
    return _FIGURE.sub(r"![\g<label>](\g<target>)", text), boxes


def _with_blocks(text: str, width: int, height: int, confidence: float) -> tuple[str, tuple[Box, ...]]:
    marks = list(_BLOCK.finditer(text))
    if not marks:
        return text, ()
    parts, boxes = [text[: marks[0].start()].strip()], []
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=True):
        block = text[mark.end() : end].strip()
        boxes.append(_box(block or mark["label"], mark["place"], width, height, confidence))
        if mark["more"] and parts[-1]:  # goes on where the block before ended, perhaps in another column
            parts[-1] = f"{parts[-1]} {block}"
        else:
            parts.append(block)
    return "\n\n".join(filter(None, parts)), tuple(boxes)


def _box(text: str, place: str, width: int, height: int, confidence: float) -> Box:
    x0, y0, x1, y1 = (min(int(number), _THOUSAND) / _THOUSAND for number in place.split(","))
    return Box(text, confidence, x0 * width, y0 * height, x1 * width, y1 * height)
