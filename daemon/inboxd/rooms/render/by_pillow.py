"""Pillow, for what OpenCV can't: frames that build on one another, grey with transparency, two TIFF compressions."""

from __future__ import annotations

import io
import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

from inboxd.rooms.render.documents import Unreadable

if TYPE_CHECKING:
    from numpy.typing import NDArray


def decoded(data: mmap.mmap, frame: int) -> NDArray[Any]:
    """Frame `frame` (from 0) as BGRA, or grey where it is 16-bit grey.

    Raises:
        Unreadable: Pillow can't either.
    """
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # the header has been checked against our own limit
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.seek(frame)
            if image.mode.startswith("I;16"):
                return np.array(image)
            return np.ascontiguousarray(np.array(image.convert("RGBA"))[..., [2, 1, 0, 3]])
    except (UnidentifiedImageError, OSError, EOFError, ValueError, SyntaxError) as error:
        raise Unreadable(f"corrupt: {error}") from error
