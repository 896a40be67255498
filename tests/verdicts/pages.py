"""Pages drawn from a text, as their ink: a text of ours is printed by MuPDF, which brings fonts for every script."""

from __future__ import annotations

import functools
import html
import re
from pathlib import Path

import cv2
import numpy as np
import pymupdf
from tests import corpus, drawing
from tests.papers import EMPTY, NEARLY_EMPTY

from inboxd.rooms.render.ink import ink

A4 = (595, 842)  # points
EDGE = 1540  # pixels
_MARGIN = 48
_TABLE = re.compile(r"(<table>.*?</table>)", re.DOTALL)
_CSS = "* {font-family: sans-serif} td, th {border: 1px solid black; padding: 1px; height: 1em}"


@functools.cache
def texts() -> dict[str, str]:
    """Name → text of the pages in texts.txt, as an engine writes it; a name begins with the language."""
    parts = re.split(r"^=== (.+)\n", Path(__file__).with_name("texts.txt").read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {name: text.strip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}


@functools.cache
def printed(text: str, size: float = 10.0, colour: str = "black") -> float:
    """Ink of an A4 page with `text` on it in letters of `size` points, or as much smaller as it needs to fit."""
    with pymupdf.open() as pdf:
        page = pdf.new_page(width=A4[0], height=A4[1])
        box = pymupdf.Rect(_MARGIN, _MARGIN, A4[0] - _MARGIN, A4[1] - _MARGIN)
        page.insert_htmlbox(box, f'<div style="font-size:{size}pt; color:{colour}">{_as_html(text)}</div>', css=_CSS)
        return ink(_pixels(page))


@functools.cache
def photograph(caption: str) -> float:
    """Ink of a page that is a picture with a line under it."""
    heights = np.random.default_rng(3).normal(0, 1, (48, 34)).astype(np.float32)
    grain = cv2.normalize(
        cv2.resize(heights, (1089, 1540), interpolation=cv2.INTER_CUBIC), None, 20, 250, cv2.NORM_MINMAX
    )
    page = np.repeat(grain.astype(np.uint8)[..., None], 3, axis=2)
    page[1400:] = 255
    cv2.putText(page, caption, (90, 1470), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (0, 0, 0), 2)
    return ink(page)


@functools.cache
def empty() -> dict[str, float]:
    """Ink of papers with nothing on them, by their condition."""
    return {name: ink(page) for name, page in EMPTY.items()}


@functools.cache
def numbered() -> dict[str, float]:
    """Ink of papers with nothing but the number 17 on them, by their condition."""
    return {name: ink(page) for name, page in NEARLY_EMPTY.items()}


@functools.cache
def scans() -> list[tuple[str, str, float]]:
    """The sample pages: language and name, their true text, and the ink of the file itself."""
    return [
        (f"{language} {sample.path.name} {number}", truth, image.ink)
        for sample in corpus.samples()
        for number, (image, truth, language) in enumerate(
            zip(drawing.pages(sample.path), sample.truth, sample.languages, strict=True), 1
        )
    ]


def _as_html(text: str) -> str:
    return "".join(
        part if _TABLE.fullmatch(part) else html.escape(part).replace("  ", "&#160; ").replace("\n", "<br/>")
        for part in _TABLE.split(text)
    )


def _pixels(page: pymupdf.Page) -> np.ndarray:
    zoom = EDGE / A4[1]
    image = page.get_pixmap(matrix=pymupdf.Matrix(zoom, zoom), alpha=False)
    return np.frombuffer(image.samples, np.uint8).reshape(image.height, image.width, 3)
