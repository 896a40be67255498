"""Draws health samples as one SVG: GPU memory, host memory and fragmentation over time, lives side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

GIB = 1024**3
WIDTH, LEFT, HEIGHT, GAP = 900, 60, 150, 45


class Row(NamedTuple):
    """One sample; bytes, seconds since the epoch, a share, a count."""

    run: int
    at: float
    host_rss: int
    gpu_used: int | None
    torch_reserved: int | None
    torch_allocated: int | None
    torch_peak: int | None
    fragmentation: float | None
    pages: int


Line = tuple[str, str, Callable[[Row], float | None]]


def _gib(amount: int | None) -> float | None:
    return None if amount is None else amount / GIB


PANELS: tuple[tuple[str, tuple[Line, ...]], ...] = (
    (
        "GPU memory, GiB",
        (
            ("in use, says the driver", "#888888", lambda row: _gib(row.gpu_used)),
            ("reserved by PyTorch", "#d95f02", lambda row: _gib(row.torch_reserved)),
            ("largest need so far", "#7570b3", lambda row: _gib(row.torch_peak)),
            ("allocated", "#1b9e77", lambda row: _gib(row.torch_allocated)),
        ),
    ),
    ("host memory of all processes, GiB", (("resident", "#1b9e77", lambda row: _gib(row.host_rss)),)),
    (
        "fragmentation, %",
        (
            (
                "of what the engine holds",
                "#d95f02",
                lambda row: None if row.fragmentation is None else row.fragmentation * 100,
            ),
            ("limit", "#cccccc", lambda row: 15.0),
        ),
    ),
    ("pages read in this life", (("pages", "#1b9e77", lambda row: float(row.pages)),)),
)


def svg(rows: Sequence[Row]) -> str:
    """The whole picture; panels of which nothing was measured are left out."""
    panels = [panel for panel in PANELS if any(line(row) is not None for _, _, line in panel[1][:1] for row in rows)]
    start, end = rows[0].at, rows[-1].at
    height = len(panels) * (HEIGHT + GAP) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, (title, lines) in enumerate(panels):
        parts += _panel(title, lines, rows, 25 + number * (HEIGHT + GAP), start, max(end - start, 1.0))
    parts.append(
        f'<text x="{LEFT}" y="{height - 8}">seconds since the first sample; each life is a line of its own</text>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(title: str, lines: Sequence[Line], rows: Sequence[Row], top: float, start: float, span: float) -> list[str]:
    values = [value for _, _, line in lines for row in rows if (value := line(row)) is not None]
    most = max(values) * 1.02 or 1.0
    least = (
        min(values) * 0.98 if min(values) > most / 2 else 0.0
    )  # what never moves far from a height is looked at closely
    inner = WIDTH - LEFT - 20

    def x(row: Row) -> float:
        return LEFT + (row.at - start) / span * inner

    def y(value: float) -> float:
        return top + HEIGHT - (value - least) / (most - least) * HEIGHT

    parts = [f'<text x="{LEFT}" y="{top - 6}" font-weight="bold">{title}</text>']
    for step in range(5):
        value = least + (most - least) * step / 4
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - 20}" stroke="#eeeeee"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    for step in range(6):
        at = LEFT + inner * step / 5
        parts.append(f'<text x="{at:.0f}" y="{top + HEIGHT + 15}" text-anchor="middle">{span * step / 5:.0f}</text>')
    for number, (name, colour, line) in enumerate(lines):
        for run in sorted({row.run for row in rows}):
            points = [(x(row), y(value)) for row in rows if row.run == run and (value := line(row)) is not None]
            path = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        parts.append(f'<text x="{LEFT + 260 + number * 160}" y="{top - 6}" fill="{colour}">{name}</text>')
    return parts
