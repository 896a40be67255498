"""Synthetic pages of print, each with its truth: random words, figures and punctuation in a few common faces."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

FONTS = Path("/usr/share/fonts/truetype")
KNOWN = (
    "DejaVuSans.ttf",
    "DejaVuSans-Bold.ttf",
    "DejaVuSerif.ttf",
    "DejaVuSansMono.ttf",
    "LiberationSans-Regular.ttf",
    "LiberationSans-Bold.ttf",
    "LiberationSerif-Regular.ttf",
    "LiberationMono-Regular.ttf",
)
FACES = [path for name in KNOWN for path in FONTS.rglob(name)]
"""The faces that are installed here."""

VOCABULARY = """
the of and to in is you that it he was for on are as with his they at be this have from or one had by word but not what
all were we when your can said there use an each which she do how their if will up other about out many then them these
so some her would make like him into time has look two more write go see number no way could people my than first water
been call who oil its now find long down day did get come made may part over new sound take only little work know place
year live me back give most very after thing our just name good sentence man think say great where help through much
before line right too mean old any same tell boy follow came want show also around form three small set put end does
another well large must big even such because turn here why ask went men read need land different home us move try kind
hand picture again change off play spell air away animal house point page letter mother answer found study still learn
should world invoice total amount date customer order payment account balance address street city country tax price
quantity description discount due received report section table figure contract agreement party signature company
limited telephone reference document archive scan copy original department manager office
"""
WORDS = VOCABULARY.split()
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Level:
    """A stage of the curriculum: the size of its pages in pixels, its longest truth in tokens, its most lines."""

    height: int
    width: int
    tokens: int
    lines: int


LEVELS = (Level(84, 448, 48, 1), Level(168, 504, 150, 3), Level(280, 560, 320, 6), Level(560, 784, 620, 12))


def page(dice: random.Random, level: Level) -> tuple[np.ndarray, str]:
    """A page (uint8, height × width, grey) and what stands on it."""
    while True:
        pixels, lines = _set(dice, level)
        truth = "\n".join(lines)
        if lines and len(truth.encode()) < level.tokens:
            return pixels, truth


def _set(dice: random.Random, level: Level) -> tuple[np.ndarray, list[str]]:
    paper, ink = dice.randint(225, 255), dice.randint(0, 60)
    sheet = Image.new("L", (level.width, level.height), paper)
    pen = ImageDraw.Draw(sheet)
    face = _face(dice.choice(FACES), dice.randint(18 if level.lines == 1 else 15, 30))
    ascent, descent = face.getmetrics()
    leading = int((ascent + descent) * dice.uniform(1.0, 1.35))
    left, top = dice.randint(6, max(7, level.width // 10)), dice.randint(4, max(5, level.height // 6))
    room = level.width - left - 6
    measure = room * (dice.uniform(0.25, 1) if dice.random() < 0.35 else 1)
    paragraphs = dice.random() < 0.3
    lines: list[str] = []
    for _ in range(dice.randint(1, level.lines)):
        if top + leading > level.height - 2:
            break
        line = _line(dice, face, measure)
        if not line:
            break
        pen.text((left, top), line, font=face, fill=ink)
        lines.append(line)
        top += leading
        if paragraphs and dice.random() < 0.3 and top + 2 * leading < level.height:
            lines.append("")
            top += int(leading * 0.7)
    while lines and not lines[-1]:
        lines.pop()
    return _worn(dice, sheet, paper), lines


def _line(dice: random.Random, face: ImageFont.FreeTypeFont, measure: float) -> str:
    line = ""
    while face.getlength(longer := f"{line} {_word(dice)}".strip()) <= measure:
        line = longer
    return line


def _word(dice: random.Random) -> str:
    makers = {
        lambda: dice.choice(WORDS): 62,
        lambda: "".join(dice.choices(LETTERS, k=dice.randint(2, 10))): 12,
        lambda: str(dice.randint(0, 10 ** dice.randint(1, 6))): 10,
        lambda: f"{dice.randint(0, 9999):,}.{dice.randint(0, 99):02d}": 4,
        lambda: f"{dice.randint(1990, 2030)}-{dice.randint(1, 12):02d}-{dice.randint(1, 28):02d}": 3,
        lambda: dice.choice(("$", "EUR ", "#", "No. ")) + str(dice.randint(1, 9999)): 3,
        lambda: "".join(dice.choices(LETTERS.upper() + "0123456789", k=dice.randint(2, 8))): 6,
    }
    word = dice.choices(list(makers), weights=list(makers.values()))[0]()
    case = dice.random()
    word = word.capitalize() if case < 0.18 else word.upper() if case < 0.26 else word
    around = dice.choices(("{}", "{},", "{}.", "{}:", "({})", "{}?", "{}!"), weights=(83, 6, 5, 2, 2, 1, 1))[0]
    return around.format(word)


def _worn(dice: random.Random, sheet: Image.Image, paper: int) -> np.ndarray:
    """A little skew, blur and noise on some pages."""
    if dice.random() < 0.15:
        sheet = sheet.rotate(dice.uniform(-1.2, 1.2), resample=Image.Resampling.BICUBIC, fillcolor=paper)
    if dice.random() < 0.15:
        sheet = sheet.filter(ImageFilter.GaussianBlur(dice.uniform(0.2, 0.8)))
    pixels = np.asarray(sheet, np.uint8)
    if dice.random() < 0.2:
        noise = np.random.default_rng(dice.getrandbits(32)).normal(0, dice.uniform(2, 9), pixels.shape)
        pixels = np.clip(pixels + noise, 0, 255).astype(np.uint8)
    return pixels


@lru_cache(maxsize=256)
def _face(path: Path, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(path), size)
