"""Pages and output lengths for bench/gpu.py: the same for every contender."""

from __future__ import annotations

import math
import random
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import NormalDist

import numpy as np

VOCABULARY = """
the of and to in you that was for on are with his they this have from one had by word but not what all were when
your can said there use each which how their will other about out many then them these some her would make like
invoice total amount date customer order payment account balance number address street city country report
section table figure contract agreement party signature company telephone reference document archive department
office
"""
WORDS = VOCABULARY.split()

A4 = (595, 842)  # points
EDGE, GRID = 1540, 28
PAGES_A_FILE = 10


def lengths(
    count: int, mean: int = 700, sigma: float = 0.7, low: int = 50, high: int = 2500, seed: int = 7
) -> list[int]:
    """Output tokens of `count` pages: a stratified lognormal, cut at both ends, shuffled; every count has the mean."""
    z = np.array([NormalDist().inv_cdf((i + 0.5) / count) for i in range(count)])
    mu = math.log(mean) - sigma * sigma / 2
    for _ in range(40):
        drawn = np.clip(np.rint(np.exp(mu + sigma * z)), low, high)
        mu += math.log(mean / drawn.mean()) * 0.8
    return [int(length) for length in np.random.default_rng(seed).permutation(drawn)]


def text(seed: int, lines: int = 58) -> list[str]:
    """Lines of words: a full A4 page in 10 point."""
    dice = random.Random(seed)
    return [" ".join(dice.choices(WORDS, k=14)) for _ in range(lines)]


def write_pdfs(folder: Path, count: int) -> list[Path]:
    """`count` pages of text in PDFs of ten; needs PyMuPDF."""
    folder.mkdir(parents=True, exist_ok=True)
    starts = range(0, count, PAGES_A_FILE)
    with ProcessPoolExecutor() as pool:
        return list(pool.map(_write_pdf, [folder] * len(starts), starts, [count] * len(starts)))


def _write_pdf(folder: Path, start: int, count: int) -> Path:
    import pymupdf

    document = pymupdf.open()
    for number in range(start, min(start + PAGES_A_FILE, count)):
        page = document.new_page(width=A4[0], height=A4[1])
        page.insert_text((50, 50), text(number), fontsize=9.5, lineheight=1.35)
    path = folder / f"document-{start // PAGES_A_FILE:04d}.pdf"
    document.save(path, garbage=3, deflate=True)
    return path


def in_memory(pdfs: list[Path]) -> list[np.ndarray]:
    """The PDFs' pages as the render room would hand them over: uint8 RGB on the grid."""
    with ProcessPoolExecutor() as pool:
        return [page for pages in pool.map(_render, pdfs) for page in pages]


def _render(pdf: Path) -> list[np.ndarray]:
    import pymupdf

    pages = []
    for page in pymupdf.open(pdf):
        scale = EDGE / max(page.rect.width, page.rect.height)
        pixmap = page.get_pixmap(matrix=pymupdf.Matrix(scale, scale), alpha=False)
        pixels = np.frombuffer(pixmap.samples, np.uint8).reshape(pixmap.height, pixmap.width, 3)
        pages.append(padded(pixels))
    return pages


def drawn(count: int) -> list[np.ndarray]:
    """As `in_memory` where PyMuPDF is not there: lines of text by OpenCV, each page with a stamp of its own."""
    import cv2

    dice = np.random.default_rng(3)
    base = []
    for seed in range(8):
        page = np.full((EDGE, 1092, 3), 250, np.uint8)
        for number, line in enumerate(text(seed)):
            cv2.putText(page, line, (60, 60 + 25 * number), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (20, 20, 20), 1, cv2.LINE_AA)
        base.append(page)
    pages = []
    for number in range(count):
        page = base[number % len(base)].copy()
        page[8:40, 8:40] = dice.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        pages.append(page)
    return pages


def padded(pixels: np.ndarray) -> np.ndarray:
    """White to the right and below, up to the model's grid."""
    height, width = pixels.shape[:2]
    return np.pad(pixels, ((0, -height % GRID), (0, -width % GRID), (0, 0)), constant_values=255)
