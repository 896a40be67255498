"""Decoded pixels made fit for a page: 8 bits, opaque, the right size and way up. Grey or BGR, as OpenCV has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from inboxd.core.page_size import Size

JPEG_FLAGS = {
    1: cv2.IMREAD_ANYCOLOR,
    2: cv2.IMREAD_REDUCED_COLOR_2,
    4: cv2.IMREAD_REDUCED_COLOR_4,
    8: cv2.IMREAD_REDUCED_COLOR_8,
}
"""How OpenCV is told to shrink a JPEG by so much while it decodes it."""

_QUARTER = 0x4000
_WIDE = 0xFFFF
_TURNS = {
    3: cv2.ROTATE_180,
    6: cv2.ROTATE_90_CLOCKWISE,
    8: cv2.ROTATE_90_COUNTERCLOCKWISE,
}


def eight_bit(pixels: NDArray[Any], peak: int = 0) -> NDArray[np.uint8]:
    """Samples of any type as uint8, where white is `peak` if the file says what it is.

    16-bit samples often hold 10 or 12 bits only: a picture that keeps to the lowest quarter is stretched to its own
    brightest sample. Floats are taken as 0 to 1 if they keep to that, else stretched from darkest to lightest.
    """
    if pixels.ndim == 3 and pixels.shape[2] == 4 and pixels.dtype != np.uint8:
        alpha = _scaled(pixels[..., 3], 0, _WIDE if pixels.dtype == np.uint16 else 1)
        return np.dstack([eight_bit(np.ascontiguousarray(pixels[..., :3]), peak), alpha])
    if pixels.dtype == np.uint8:
        return _scaled(pixels, 0, peak) if 0 < peak < 255 else pixels
    if pixels.dtype == np.uint16:
        brightest = int(pixels.max())
        return _scaled(pixels, 0, peak or (_WIDE if brightest >= _QUARTER else max(1, brightest)))
    samples = np.nan_to_num(pixels.astype(np.float32), posinf=0, neginf=0)
    low, high = float(samples.min()), float(samples.max())
    return _scaled(samples, 0, 1) if low >= 0 and high <= 1 else _scaled(samples, low, high)


def on_white(pixels: NDArray[np.uint8], *, multiplied: bool = False) -> NDArray[np.uint8]:
    """`pixels` as they look on white paper, without alpha; `multiplied` says that they are weakened by it already."""
    if pixels.ndim == 2 or pixels.shape[2] == 3:
        return pixels
    alpha = pixels[..., 3]
    if int(alpha.min()) == 255:
        return np.ascontiguousarray(pixels[..., :3])
    cover = cv2.cvtColor(alpha, cv2.COLOR_GRAY2BGR)
    shown: cv2.typing.MatLike = np.ascontiguousarray(pixels[..., :3])
    if not multiplied:
        shown = cv2.multiply(shown, cover, scale=1 / 255)
    return _u8(cv2.add(shown, cv2.bitwise_not(cover)))


def resized(pixels: NDArray[np.uint8], target: Size) -> NDArray[np.uint8]:
    """`pixels` at `target` size, averaged where they shrink; a side that grows (a fax's) is stretched first."""
    height, width = pixels.shape[:2]
    grown = max(width, target.width), max(height, target.height)
    if grown != (width, height):
        pixels = _u8(cv2.resize(pixels, grown, interpolation=cv2.INTER_LINEAR))
    if grown != (target.width, target.height):
        pixels = _u8(cv2.resize(pixels, (target.width, target.height), interpolation=cv2.INTER_AREA))
    return pixels


def trimmed(pixels: NDArray[np.uint8], target: Size, most: int) -> NDArray[np.uint8]:
    """`pixels` at `target` size: cut or continued at the right and below by up to `most`, else `resized`.

    What is off by rounding only would take longer to resample than to decode.
    """
    height, width = pixels.shape[:2]
    right, below = target.width - width, target.height - height
    if max(abs(right), abs(below)) > most:
        return resized(pixels, target)
    if right > 0 or below > 0:
        edge = cv2.BORDER_REPLICATE
        pixels = _u8(cv2.copyMakeBorder(pixels, 0, max(0, below), 0, max(0, right), edge))
    return pixels[: target.height, : target.width]


def upright(pixels: NDArray[np.uint8], orientation: int) -> NDArray[np.uint8]:
    """`pixels` turned and mirrored as an EXIF or TIFF orientation (1 to 8) asks."""
    match orientation:
        case 2:
            return _u8(cv2.flip(pixels, 1))
        case 4:
            return _u8(cv2.flip(pixels, 0))
        case 5:
            return _u8(cv2.transpose(pixels))
        case 7:
            return _u8(cv2.rotate(cv2.transpose(pixels), cv2.ROTATE_180))
        case 3 | 6 | 8:
            return _u8(cv2.rotate(pixels, _TURNS[orientation]))
    return pixels


def rgb(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Grey or BGR as RGB."""
    return _u8(cv2.cvtColor(pixels, cv2.COLOR_GRAY2RGB if pixels.ndim == 2 else cv2.COLOR_BGR2RGB))


def _scaled(pixels: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Samples from `low` to `high` spread over 0 to 255."""
    scale = 255 / (high - low) if high > low else 0.0
    return _u8(cv2.convertScaleAbs(pixels, alpha=scale, beta=-low * scale))


def _u8(image: cv2.typing.MatLike) -> NDArray[np.uint8]:
    """OpenCV's annotations lose the type that it keeps."""
    return np.asarray(image, np.uint8)
