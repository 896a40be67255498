"""Draws the page that a model in vLLM must read before it is trusted: daemon/inboxd/engines/data/golden_print.png.

Printed upright Latin, at a size that LightOnOCR and the tiny checkpoint both read without an error. Needs Pillow
and DejaVu Sans: `python tests/tiny_lightonocr/draw_golden.py`. The words stand in inboxd/engines/vllm_golden.py.
"""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from inboxd.engines.vllm_golden import LINES

FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
WIDTH, HEIGHT, SIZE, STEP, LEFT, TOP = 560, 280, 24, 38, 20, 16
TARGET = Path(__file__).parents[2] / "daemon" / "inboxd" / "engines" / "data" / "golden_print.png"


def draw() -> Image.Image:
    page = Image.new("L", (WIDTH, HEIGHT), 250)
    pen, face = ImageDraw.Draw(page), ImageFont.truetype(FONT, SIZE)
    for number, line in enumerate(LINES):
        pen.text((LEFT, TOP + number * STEP), line, font=face, fill=20)
    return page


if __name__ == "__main__":
    draw().save(TARGET, optimize=True)
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")
