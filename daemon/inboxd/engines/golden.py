"""The page that an engine must read right before it is trusted with a person's."""

from __future__ import annotations

from importlib import resources

import cv2
import numpy as np

from inboxd.errors import EngineUnusable

WORDS = ("these words come out", "Größe 42", "déjà vu", "señal 1985", "图书馆九点开门")


def upright() -> np.ndarray:
    """A few lines in several languages: uint8, height × width × RGB.

    Raises:
        EngineUnusable: the picture in the package is damaged.
    """
    raw = resources.files("inboxd.engines").joinpath("data/golden.png").read_bytes()
    picture = cv2.imdecode(np.frombuffer(raw, np.uint8), cv2.IMREAD_COLOR_RGB)
    if picture is None:
        raise EngineUnusable("the test page of the engines is damaged", "Install inboxd again.")
    return picture


def on_its_side() -> np.ndarray:
    """The same page, turned by 90 degrees clockwise."""
    return cv2.rotate(upright(), cv2.ROTATE_90_CLOCKWISE)
