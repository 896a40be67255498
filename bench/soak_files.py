"""bench/soak.py: what arrives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "tests" / "samples"
KINDS = {"picture": 60, "pdf": 24, "copy": 6, "broken": 6, "not a document": 4}
"""What arrives, in per cent."""


def arrivals(inbox: Path, engine: str) -> Iterator[int]:
    """Drop one file after the other, without end; yields the pages that each has, 0 if it can't be read."""
    import cv2
    import numpy as np
    import pymupdf

    dice = random.Random(5)
    lines = (SAMPLES / "en_report.txt").read_text().splitlines()
    scans = [cv2.imread(str(path)) for path in sorted(SAMPLES.glob("*_notice_degraded.jpg"))]
    earlier: list[tuple[Path, int]] = []
    number = 0
    while True:
        number += 1
        folder = inbox / f"{number // 500:03}"
        folder.mkdir(exist_ok=True)
        kind = dice.choices(list(KINDS), list(KINDS.values()))[0]
        pages = 1
        if kind == "picture":
            scan = dice.choice(scans).copy() if engine == "cpu" else np.full((300, 200, 3), 240, np.uint8)
            cv2.putText(scan, f"No. {number}", (10, 60), cv2.FONT_HERSHEY_SIMPLEX, 1, (40, 40, 40), 2)
            path, data = folder / f"{number}.png", cv2.imencode(".png", scan)[1].tobytes()
        elif kind == "pdf":
            path, pages = folder / f"{number}.pdf", dice.randint(1, 6)
            with pymupdf.open() as pdf:
                for page in range(pages):
                    pdf.new_page().insert_text((50, 50), [f"Document {number}, page {page}", *lines[:20]], fontsize=10)
                data = pdf.tobytes()
        elif kind == "copy" and earlier:
            original, pages = dice.choice(earlier[-200:])
            path, data = folder / f"copy {number}{original.suffix}", original.read_bytes()
        else:
            head = b"%PDF-1.7\n" if kind == "broken" else b"PK\3\4"
            path, data, pages = folder / f"{number}.pdf", head + dice.randbytes(500) + b"\n%%EOF\n", 0
        path.with_suffix(".part").write_bytes(data)
        path.with_suffix(".part").rename(path)
        if pages:
            earlier.append((path, pages))
        yield pages
