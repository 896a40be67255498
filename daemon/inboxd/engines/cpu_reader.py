"""Reads a page with RapidOCR: turned upright, recognised line by line, put into reading order.

Lives in the worker processes of the CPU engine; single-threaded, and never downloads anything.
"""

from __future__ import annotations

import math
import time
import unicodedata
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from inboxd.engines import golden, reading_order
from inboxd.engines.orientation import PageOrientation
from inboxd.errors import EngineUnusable
from inboxd.model import Box, EngineInfo, PageText

MODEL = "PP-OCRv6 small"
SLIMMEST = 4  # a page longer than so many times its width would be blown up beyond all memory by the detector
LEVEL = math.radians(0.1), math.radians(12)  # the skew worth correcting, and the most that can be trusted


class PageReader:
    """The OCR models of one process, loaded and tried."""

    def __init__(self) -> None:
        """Load the models and read the golden page.

        Raises:
            EngineUnusable: a package or model file is missing, or the golden page comes out wrong.
        """
        self._orientation = PageOrientation()
        self._ocr = _rapidocr()
        seen = self.read(golden.on_its_side())
        if seen.turned != 90 or any(word not in seen.text for word in golden.WORDS):
            raise EngineUnusable(
                f"the CPU engine misreads its test page: {seen.text!r}, turned {seen.turned}",
                "Install it afresh: pip install --force-reinstall rapidocr onnxruntime opencv-python-headless",
            )

    @property
    def info(self) -> EngineInfo:
        packages = {name: metadata.version(name) for name in ("rapidocr", "onnxruntime")}
        version = ", ".join(f"{name} {number}" for name, number in packages.items())
        return EngineInfo("cpu", MODEL, version, details={**packages, "orientation": "PP-LCNet x1.0, int8 weights"})

    def read(self, pixels: np.ndarray) -> PageText:
        """Read a page (uint8, height × width × RGB). Boxes are in pixels of the page turned upright."""
        began = time.monotonic()
        page, turned = self._orientation.upright(cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))
        found = self._ocr(_widened(page))
        lines = [] if found.txts is None else _lines(found.txts, found.scores, np.asarray(found.boxes, np.float32))
        rows = reading_order.arrange(lines)
        boxes = tuple(line.box for row in rows for line in row)
        weight = sum(len(box.text) for box in boxes)
        return PageText(
            text=reading_order.text(rows),
            confidence=sum(box.confidence * len(box.text) for box in boxes) / weight if weight else None,
            boxes=boxes,
            turned=turned,
            read_s=time.monotonic() - began,
        )


def _rapidocr() -> Any:  # rapidocr's result types depend on its arguments
    spec = find_spec("rapidocr")
    if spec is None or spec.origin is None:
        raise EngineUnusable("the package rapidocr is not installed", "pip install rapidocr==3.10.0")
    models = Path(spec.origin).parent / "models"
    # Named files are taken as they are; left to itself rapidocr fetches a model whose checksum it dislikes.
    chosen = {
        "Det.model_path": models / "PP-OCRv6_det_small.onnx",
        "Rec.model_path": models / "PP-OCRv6_rec_small.onnx",
    }
    for path in chosen.values():
        if not path.is_file():
            raise EngineUnusable(f"the model {path} is missing", "pip install --force-reinstall rapidocr==3.10.0")
    from rapidocr import RapidOCR

    cv2.setNumThreads(1)
    return RapidOCR(
        params={
            **{name: str(path) for name, path in chosen.items()},
            "Global.log_level": "critical",
            "Global.use_cls": False,  # the line classifier turns good lines upside down
            "Rec.rec_batch_num": 3,  # lines; it moves single characters: 1 and 6 had more wrong on the samples
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        }
    )


def _widened(page: np.ndarray) -> np.ndarray:
    """The page with white added at the right or below, if it is a mere strip."""
    height, width = page.shape[:2]
    shorter = -(-max(height, width) // SLIMMEST)
    below, right = max(0, shorter - height), max(0, shorter - width)
    if not below and not right:
        return page
    return cv2.copyMakeBorder(page, 0, below, 0, right, cv2.BORDER_CONSTANT, value=(255, 255, 255))


def _lines(texts: tuple[str, ...], scores: tuple[float, ...], quads: np.ndarray) -> list[reading_order.Line]:
    """What rapidocr found, with each quadrilateral (4 corners, clockwise from the top left) also on the level page."""
    lines = []
    for text, score, quad, level in zip(texts, scores, quads, _levelled(quads), strict=True):
        box = Box(unicodedata.normalize("NFC", text), float(score), *_extent(quad))
        lines.append(reading_order.Line(box, *_extent(level)))
    return lines


def _extent(quad: np.ndarray) -> tuple[float, float, float, float]:
    (x0, y0), (x1, y1) = quad.min(0).tolist(), quad.max(0).tolist()
    return x0, y0, x1, y1


def _levelled(quads: np.ndarray) -> np.ndarray:
    """The quadrilaterals turned by the page's skew, so that the cells of a slanting table row meet again."""
    along = quads[:, 1] - quads[:, 0]
    long = along[:, 0] > 5 * np.abs(quads[:, 3, 1] - quads[:, 0, 1])
    if np.count_nonzero(long) < 3:
        return quads
    skew = float(np.median(np.arctan2(along[long, 1], along[long, 0])))
    if not LEVEL[0] < abs(skew) < LEVEL[1]:
        return quads
    cos, sin = math.cos(skew), math.sin(skew)
    return quads @ np.array([[cos, -sin], [sin, cos]], np.float32)
