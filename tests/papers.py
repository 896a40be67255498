"""Drawn papers: empty ones of every condition, and nearly empty ones."""

from __future__ import annotations

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT = 1089, 1540

rng = np.random.default_rng(7)


def paper(shade: tuple[int, int, int] = (255, 255, 255)) -> np.ndarray:
    return np.full((HEIGHT, WIDTH, 3), shade, np.uint8)


def noisy(page: np.ndarray, sigma: float = 6) -> np.ndarray:
    return np.clip(page + rng.normal(0, sigma, page.shape), 0, 255).astype(np.uint8)


def with_text(page: np.ndarray, shade: int = 0, lines: int = 40) -> np.ndarray:
    image = Image.fromarray(page)
    for line in range(lines):
        words = "The quick brown fox jumps over the lazy dog 1234567890 and some more of the same"
        ImageDraw.Draw(image).text((90, 105 + 32 * line), words, (shade,) * 3, ImageFont.load_default(22))
    return np.array(image)


def with_number(page: np.ndarray, shade: int = 0) -> np.ndarray:
    image = Image.fromarray(page)
    ImageDraw.Draw(image).text((WIDTH // 2, HEIGHT - 90), "17", (shade,) * 3, ImageFont.load_default(18))
    return np.array(image)


def shaded(page: np.ndarray) -> np.ndarray:
    return (page * np.linspace(1, 0.55, WIDTH)[None, :, None]).astype(np.uint8)


def shining_through(page: np.ndarray, share: float) -> np.ndarray:
    """The mirrored, blurred text of the reverse."""
    reverse = cv2.GaussianBlur(with_text(paper())[:, ::-1], (0, 0), 1.5)
    return (page.astype(float) * (1 - (255 - reverse) / 255 * share)).astype(np.uint8)


def edged(page: np.ndarray) -> np.ndarray:
    """Dark strips where the page lay askew, and a soft shadow on one side."""
    page = page.copy()
    cv2.fillPoly(page, [np.array([[0, 0], [50, 0], [0, HEIGHT - 1]])], (12, 12, 12))
    page[-15:] = 20
    page[:, -50:] = (page[:, -50:] * np.linspace(1, 0.2, 50)[None, :, None]).astype(np.uint8)
    return page


EMPTY = {
    "white": paper(),
    "black": paper((0, 0, 0)),
    "grey with noise": noisy(paper((190, 190, 190)), 15),
    "yellowed": noisy(paper((235, 215, 160))),
    "light falls off": noisy(shaded(paper((235, 225, 200)))),
    "the reverse shines through": noisy(shining_through(paper((240, 238, 230)), 0.25)),
    "yellowed, shaded, and the reverse shines through": noisy(shaded(shining_through(paper((235, 215, 160)), 0.2))),
    "scanner edges": edged(noisy(paper((220, 220, 220)))),
    "one dust grain": cv2.circle(paper(), (500, 700), 1, (0, 0, 0), -1),
}

NEARLY_EMPTY = {
    "number on white": with_number(paper()),
    "number in grey": with_number(paper(), 110),
    "number on grey with noise": noisy(with_number(paper((190, 190, 190))), 12),
    "number on yellowed, shaded paper": noisy(shaded(with_number(paper((235, 215, 160))))),
    "number over show-through": noisy(with_number(shining_through(paper(), 0.25))),
    "number between scanner edges": edged(with_number(noisy(paper((220, 220, 220))))),
}
