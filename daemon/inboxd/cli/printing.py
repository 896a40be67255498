"""Plain printing for people and scripts: aligned tables that stream, JSON, and colour only where it is welcome."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

import click

from inboxd.core.naming import display
from inboxd.core.showing import one_line, to_json

_MEASURED = 200  # rows that decide the widths; later ones stream
_GAP = "  "


def say(text: str = "", *, colour: str | None = None, bold: bool = False, error: bool = False, end: str = "\n") -> None:
    """One line, on stderr where it is not part of the answer; plain where escape sequences are not welcome."""
    stream = sys.stderr if error else sys.stdout
    print(click.style(text, fg=colour, bold=bold) if in_colour(stream) else text, file=stream, end=end)


def in_colour(stream: Any) -> bool:
    """Whether escape sequences are welcome on this stream."""
    return bool(stream.isatty()) and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def print_json(value: object) -> None:
    """A whole answer as indented JSON."""
    print(to_json(value, indent=2, default=plain))


def plain(value: Any) -> Any:
    """What JSON lacks: bytes as hex, paths as text, anything else by its name."""
    return value.hex() if isinstance(value, bytes) else str(value)


def cell(value: object) -> str:
    """A value as one safe line; nothing for NULL, hex for a BLOB."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.10g}"
    return one_line(value.hex() if isinstance(value, bytes) else str(value))


def shown(path: str | PurePath) -> str:
    """A path as one safe line."""
    return display(os.fsencode(path))


def size(count: float) -> str:
    """A number of bytes as people say it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
    """Print rows aligned under their headers and return how many there were.

    On a terminal the widest columns give way so that a row fits one line; in a pipe nothing is cut.
    """
    stream = iter(rows)
    first = list(itertools.islice(stream, _MEASURED))
    numeric = [
        all(isinstance(row[i], int | float | None) for row in first) and any(row[i] is not None for row in first)
        for i in range(len(headers))
    ]
    widths = [
        max(_width(cell(value)) for value in (header, *(row[i] for row in first))) for i, header in enumerate(headers)
    ]
    clip = sys.stdout.isatty()
    if clip:
        widths = _squeezed(widths, shutil.get_terminal_size().columns - len(_GAP) * (len(widths) - 1))

    def line(values: Sequence[object]) -> str:
        return _GAP.join(
            _fitted(cell(value), width, right, clip)
            for value, width, right in zip(values, widths, numeric, strict=True)
        ).rstrip()

    say(line(headers), colour="cyan")
    count = 0
    for row in itertools.chain(first, stream):
        print(line(row))
        count += 1
    return count


def _fitted(text: str, width: int, right: bool, clip: bool) -> str:
    if clip:
        text = _clipped(text, width)
    padding = " " * (width - _width(text))
    return padding + text if right else text + padding


def _squeezed(widths: list[int], room: int) -> list[int]:
    """Take from the widest until all fit, leaving each at least a few columns."""
    widths = list(widths)
    while sum(widths) > room and max(widths) > 6:
        widths[widths.index(max(widths))] -= 1
    return widths


def _clipped(text: str, width: int) -> str:
    """As much as fits, and an ellipsis: of a path its end, which tells one file of a folder from the next."""
    if _width(text) <= width:
        return text
    if text.startswith("/"):
        return "…" + _beginning(text[::-1], width - 1)[::-1]
    return _beginning(text, width - 1) + "…"


def _beginning(text: str, width: int) -> str:
    used = 0
    for count, character in enumerate(text):
        used += _width(character)
        if used > width:
            return text[:count]
    return text


def _width(text: str) -> int:
    """Columns on a terminal: wide East Asian characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )
