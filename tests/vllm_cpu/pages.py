"""Pages that the tiny checkpoint can read: printed lines at the size it was trained on, each with its truth."""

from __future__ import annotations

import random
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from inboxd.model import PageImage

FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
WIDTH, HEIGHT, SIZE, STEP, LEFT, TOP = 560, 280, 24, 38, 20, 16
VOCABULARY = """
the of and to in you that was for on are with his they at be this have from one had by word but not what all were
when your can said there use each which she how their will other about out many then them these some her would make
like him into time has look two more write see number way could people first water invoice total amount date customer
order payment account balance address street city country price report section table figure contract party company
letter archive copy department office
"""
WORDS = VOCABULARY.split()


@lru_cache(maxsize=1)
def _face() -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(FONT, SIZE)


def lines(seed: int, count: int = 5) -> list[str]:
    """Random words in lines that fit the page."""
    dice = random.Random(seed)
    rows = []
    for _ in range(count):
        row = ""
        while True:
            longer = f"{row} {dice.choice(WORDS)}".strip()
            if _face().getlength(longer) > WIDTH - 2 * LEFT:
                break
            row = longer
        rows.append(row)
    return rows


def draw(rows: list[str]) -> PageImage:
    """The lines as a page image, on the grid."""
    picture = Image.new("RGB", (WIDTH, HEIGHT), (250, 250, 250))
    pen = ImageDraw.Draw(picture)
    for number, row in enumerate(rows):
        pen.text((LEFT, TOP + number * STEP), row, font=_face(), fill=(20, 20, 20))
    return PageImage(np.array(picture), WIDTH, HEIGHT, ink=0.05)


def errors(text: str, truth: str) -> float:
    """Character error rate: edits that make `truth` of `text`, for each character of `truth`."""
    row = list(range(len(truth) + 1))
    for i, character in enumerate(text, 1):
        before, row[0] = row[0], i
        for j, wanted in enumerate(truth, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (character != wanted))
    return row[-1] / max(1, len(truth))
