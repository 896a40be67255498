"""Puts recognised lines into the order in which a person reads them: columns, tables, vertical setting.

A page is cut at a vertical gutter only where running text stands on both sides of it, so that the cells of a
table or a form stay together, row by row. Lines that cross the gutter (headings, full-width paragraphs) cut the
page into bands, read one after the other. Pages set vertically are handled by looking at them sideways.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from inboxd.model import Box

COLUMN_LINES = 3  # a column has at least so many lines beside its neighbour
COLUMN_ASPECT = 7.0  # and its lines are so many line heights wide (median): narrower ones are table cells
GUTTER = 0.6  # the least gap between columns, in line heights
CROSSING = 0.35  # a gutter may be crossed by so many lines for each line beside it
SAME_ROW = 0.45  # centres closer than so many line heights share a row
PARAGRAPH = 0.5  # a gap of so many line heights parts paragraphs; within one there are at most 0.35


@dataclass(frozen=True, slots=True)
class Line:
    """A recognised line and where it lies on the levelled page, in pixels."""

    box: Box  # as found on the page, before levelling
    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return max(1.0, self.y1 - self.y0)

    @property
    def centre(self) -> float:
        return (self.y0 + self.y1) / 2

    def beside(self, other: Line) -> bool:
        """Whether the two share much of their height."""
        shared = min(self.y1, other.y1) - max(self.y0, other.y0)
        return shared > 0.4 * min(self.height, other.height)


Rows = list[list[Line]]


def arrange(lines: Iterable[Line]) -> Rows:
    """All lines with text, as rows in reading order, each row from its beginning to its end."""
    lines = [line for line in lines if line.box.text.strip()]
    if _vertical(lines):
        # Seen with the head tilted, columns from right to left are rows from top to bottom.
        lines = [replace(line, x0=line.y0, y0=-line.x1, x1=line.y1, y1=-line.x0) for line in lines]
    return _region(lines)


def text(rows: Rows) -> str:
    """The rows as text, a line each, with an empty line where the page has a gap."""
    parts: list[str] = []
    for above, row in zip([None, *rows], rows, strict=False):
        if above is not None:
            parts.append("\n\n" if _apart(above, row) else "\n")
        parts.append(" ".join(line.box.text for line in row))
    return "".join(parts)


def _apart(above: Sequence[Line], row: Sequence[Line]) -> bool:
    """Whether a gap divides the two rows. The top of the next column only goes on with the text."""
    gap = min(line.y0 for line in row) - max(line.y1 for line in above)
    return gap > PARAGRAPH * min(line.height for line in (*above, *row))


def _vertical(lines: Sequence[Line]) -> bool:
    """Whether most characters stand in lines that are taller than wide."""
    upright = sum(len(line.box.text) for line in lines if line.height > 1.5 * line.width)
    return 2 * upright > sum(len(line.box.text) for line in lines)


def _region(lines: Sequence[Line]) -> Rows:
    gutter = _gutter(lines)
    if gutter is None:
        return _rows(lines)
    aside = [line for line in lines if line.x1 <= gutter or line.x0 >= gutter]
    across = [line for line in lines if line.x0 < gutter < line.x1]
    inset = [line for line in across if any(line.beside(other) for other in aside)]  # captions and the like
    headings = sorted((line for line in across if line not in inset), key=lambda line: line.centre)
    rows: Rows = []
    top = float("-inf")
    for heading in [*headings, None]:
        bottom = heading.centre if heading else float("inf")
        band = [line for line in aside if top <= line.centre < bottom]
        title = _title(band, heading) if heading else None
        band = [line for line in band if line is not title]
        left = [line for line in band if line.x1 <= gutter]
        right = [line for line in band if line.x1 > gutter]
        if min(len(left), len(right)) < COLUMN_LINES:
            rows += _rows(band)
        else:
            rows += _region(left) + _region(right)
        rows += _rows([line for line in inset if top <= line.centre < bottom])
        rows += [[line] for line in (title, heading) if line]
        top = bottom
    return rows


def _title(band: Sequence[Line], heading: Line) -> Line | None:
    """The lowest line of a column, if it stands apart from the columns and close above the full-width line."""
    last = max(band, key=lambda line: line.y1, default=None)
    if last is None or any(line.y1 > last.y0 for line in band if line is not last):
        return None
    above = last.y0 - max((line.y1 for line in band if line is not last), default=last.y0)
    below = heading.y0 - last.y1
    return last if above > below + 0.5 * last.height else None


def _gutter(lines: Sequence[Line]) -> float | None:
    """Where the page is best cut into two columns (x), if it has columns at all."""
    if len(lines) < 2 * COLUMN_LINES:
        return None
    unit = median(line.height for line in lines)
    best: tuple[int, float] | None = None
    tried = float("-inf")
    for start in sorted(line.x0 for line in lines):
        if start - tried < 0.25 * unit:  # the same edge again: its leftmost line stands for all
            continue
        tried = start
        left = [line for line in lines if line.x1 < start]
        right = [line for line in lines if line.x0 >= start]
        crossing = len(lines) - len(left) - len(right)
        pair = _abreast(left, right, lines, start)
        if pair is None:
            continue
        ends = sorted(line.x1 for line in pair[0])
        gap = start - ends[int(0.95 * (len(ends) - 1))]  # one overlong line does not close a gutter
        worth = min(len(pair[0]), len(pair[1])) - crossing
        if gap >= GUTTER * unit and (best is None or worth > best[0]):
            best = worth, start - min(gap, unit) / 2
    return best[1] if best else None


def _abreast(
    left: Sequence[Line], right: Sequence[Line], lines: Sequence[Line], x: float
) -> tuple[list[Line], list[Line]] | None:
    """The lines of both sides at the height that the sides share, if they are two columns of running text."""
    if min(len(left), len(right)) < COLUMN_LINES:
        return None
    top = max(min(line.y0 for line in side) for side in (left, right))
    bottom = min(max(line.y1 for line in side) for side in (left, right))

    def within(side: Sequence[Line]) -> list[Line]:
        return [line for line in side if line.y1 > top and line.y0 < bottom]

    here, there = within(left), within(right)
    if min(len(here), len(there)) < COLUMN_LINES:
        return None
    if any(median(line.width / line.height for line in side) < COLUMN_ASPECT for side in (here, there)):
        return None
    crossing = sum(1 for line in within(lines) if line.x0 < x < line.x1)
    return None if crossing > CROSSING * (len(here) + len(there)) else (here, there)


def _rows(lines: Iterable[Line]) -> Rows:
    """Lines of about the same height gathered into rows, top to bottom, each from left to right."""
    rows: Rows = []
    for line in sorted(lines, key=lambda line: line.centre):
        for row in reversed(rows[-6:]):
            middle = sum(other.centre for other in row) / len(row)
            if abs(line.centre - middle) < SAME_ROW * min(line.height, row[0].height):
                row.append(line)
                break
        else:
            rows.append([line])
    rows.sort(key=lambda row: sum(line.centre for line in row) / len(row))
    return [sorted(row, key=lambda line: line.x0) for row in rows]
