"""Draw daemon/inboxd/engines/data/golden.png, the page that the CPU engine must read right before it starts.

    python tools/golden_page.py daemon/inboxd/engines/data/golden.png

Made with the fonts inside PyMuPDF; only the picture is kept. Change it together with inboxd.engines.golden.WORDS.
"""

import sys
from pathlib import Path

import cv2
import numpy as np
import pymupdf

LINES = [
    ("helv", "This page is read when inboxd"),
    ("helv", "starts: if these words come out,"),
    ("helv", "so will yours. Größe 42 cm,"),
    ("helv", "déjà vu, señal 1985."),
    ("china-s", "今天的天气很好，"),
    ("china-s", "图书馆九点开门。"),
]


def main(target: Path) -> None:
    with pymupdf.open() as document:
        page = document.new_page(width=240, height=210)
        for row, (font, line) in enumerate(LINES):
            page.insert_text((24, 32 + 30 * row), line, fontsize=14, fontname=font)
        picture = page.get_pixmap(matrix=pymupdf.Matrix(2, 2), colorspace=pymupdf.csGRAY)
    grey = np.frombuffer(picture.samples, np.uint8).reshape(picture.height, picture.stride)[:, : picture.width]
    ok, png = cv2.imencode(".png", (grey // 17) * 17, [cv2.IMWRITE_PNG_COMPRESSION, 9])
    if not ok:
        sys.exit("OpenCV could not write a PNG")
    target.write_bytes(png.tobytes())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
