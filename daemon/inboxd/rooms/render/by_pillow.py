"""Pillow, for what OpenCV can't: frames that build on one another, grey with transparency, two TIFF compressions."""

from __future__ import annotations

import io
import mmap
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from inboxd.rooms.render.documents import Unreadable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORMATS = ("AVIF", "GIF", "JPEG2000", "PNG", "TIFF", "WEBP")

# Pillow loads its parts when the first picture wants them, and by then nothing can be loaded any more.
Image.preinit()
for _part in ("AvifImagePlugin", "Jpeg2KImagePlugin", "TiffImagePlugin", "WebPImagePlugin", "ImageCms"):
    import_module(f"PIL.{_part}")
Image.MAX_IMAGE_PIXELS = None  # the header has been checked against our own limit


def decoded(data: mmap.mmap, frame: int) -> NDArray[Any]:
    """Frame `frame` (from 0) as BGRA, or grey where it is 16-bit grey.

    Raises:
        Unreadable: Pillow can't either.
    """
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            image.seek(frame)
            if image.mode.startswith("I;16"):
                return np.array(image)
            return np.ascontiguousarray(np.array(image.convert("RGBA"))[..., [2, 1, 0, 3]])
    except (UnidentifiedImageError, OSError, EOFError, ValueError, SyntaxError) as error:
        raise Unreadable(f"corrupt: {error}") from error
