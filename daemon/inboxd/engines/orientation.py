"""Says how a page's content lies: upright, on a side or upside down, whatever the file's tags claim.

The model (PP-LCNet, see NOTICE) is 1.8 MB and takes some 30 ms of one core. Its probabilities can be trusted:
pages with text give 0.9 and more, blank or nearly empty ones stay near 0.25 and are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

import cv2
import numpy as np
import onnxruntime

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "data/page_orientation.onnx"
SURE = 0.9  # a wrong turn ruins a page, a turn not made costs as much: act on clear cases only

_SIDE = 224  # pixels; what the model takes
_VIEW = 224 / 256  # share of the shorter edge that it sees, round the centre
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_STD = np.array([0.229, 0.224, 0.225], np.float32)
_BACK = {90: cv2.ROTATE_90_COUNTERCLOCKWISE, 180: cv2.ROTATE_180, 270: cv2.ROTATE_90_CLOCKWISE}


@dataclass(frozen=True, slots=True)
class Turn:
    """By how many degrees clockwise the content is turned, and how probable that is (0 to 1)."""

    degrees: int
    probability: float


class PageOrientation:
    """The orientation model, loaded; single-threaded."""

    def __init__(self, model: Path | None = None) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        raw = model.read_bytes() if model else resources.files("inboxd.engines").joinpath(MODEL).read_bytes()
        self._session = onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name
        labels = self._session.get_modelmeta().custom_metadata_map["character"]
        self._degrees = [int(label) for label in labels.split()]

    def __call__(self, page: np.ndarray) -> Turn:
        """Judge a page (uint8, height × width × 3)."""
        probabilities = self._session.run(None, {self._input: _centre(page)})[0][0]
        best = int(probabilities.argmax())
        return Turn(self._degrees[best], float(probabilities[best]))

    def upright(self, page: np.ndarray) -> tuple[np.ndarray, int]:
        """The page turned upright, and the degrees clockwise by which its content lay; 0 where that is not sure."""
        turn = self(page)
        if turn.degrees and turn.probability >= SURE:
            return cv2.rotate(page, _BACK[turn.degrees]), turn.degrees
        return page, 0


def _centre(page: np.ndarray) -> np.ndarray:
    """The square round the page's centre as the model wants it: 1 × 3 × 224 × 224, normalised."""
    height, width = page.shape[:2]
    side = max(1, round(min(height, width) * _VIEW))
    top, left = (height - side) // 2, (width - side) // 2
    shrinking = cv2.INTER_AREA if side > _SIDE else cv2.INTER_CUBIC
    square = cv2.resize(page[top : top + side, left : left + side], (_SIDE, _SIDE), interpolation=shrinking)
    scaled = (square.astype(np.float32) / 255 - _MEAN) / _STD
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None])
