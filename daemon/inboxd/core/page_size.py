"""How large a page is made for the model: fitting, aspect, padding, and the limit on what may be decoded at all."""

from __future__ import annotations

import math
from dataclasses import dataclass

FAX_RATIOS = (0.35, 2.9)  # 204 × 98, 204 × 196 and 200 × 100 dpi are real; beyond these the tag is rubbish
SQUARE = 0.1  # pixels this near to square are left alone


@dataclass(frozen=True, slots=True)
class Size:
    """Whole pixels, each at least 1."""

    width: int
    height: int

    @property
    def longest(self) -> int:
        return max(self.width, self.height)


def fitted(width: float, height: float, longest_edge: int, *, enlarge: bool) -> Size:
    """The size at which a page of `width` × `height` (any unit) has its longest edge at `longest_edge` pixels.

    Without `enlarge` a page that is smaller already keeps its size. Ribbons keep at least one pixel of breadth.

    Raises:
        ValueError: a side is zero, negative, infinite or not a number.
    """
    if not (math.isfinite(width) and math.isfinite(height) and width > 0 and height > 0):
        raise ValueError(f"a page of {width:g} × {height:g} has no size")
    longest = max(width, height)
    if longest <= longest_edge and not enlarge:
        return Size(max(1, round(width)), max(1, round(height)))
    # The ratio comes first: width × longest_edge could overflow where width / longest cannot.
    return Size(max(1, round(width / longest * longest_edge)), max(1, round(height / longest * longest_edge)))


def padded(size: Size, grid: int) -> Size:
    """`size` rounded up to multiples of `grid`."""
    return Size(-(-size.width // grid) * grid, -(-size.height // grid) * grid)


def with_square_pixels(size: Size, x_density: float, y_density: float) -> Size:
    """The size at which an image with unequal densities (dots per inch or any unit) has its true proportions.

    The coarser side grows, so nothing of the finer one is lost. Densities that are missing or absurd change nothing.
    """
    if not (x_density > 0 and y_density > 0):
        return size
    ratio = x_density / y_density
    if abs(ratio - 1) < SQUARE or not FAX_RATIOS[0] < ratio < FAX_RATIOS[1]:
        return size
    if ratio > 1:
        return Size(size.width, max(1, round(size.height * ratio)))
    return Size(max(1, round(size.width / ratio)), size.height)


def reduction(size: Size, target: Size, reserve: float = 2) -> int:
    """By how much (1, 2, 4, 8) a JPEG may be shrunk while it is decoded, with a `reserve` left to scale well."""
    for factor in (8, 4, 2):
        if size.longest >= reserve * factor * target.longest:
            return factor
    return 1


def excess(size: Size, frames: int, limit: int) -> str:
    """Why an image may not be decoded, for a person; "" when it may. `frames` are decoded together."""
    pixels = size.width * size.height * frames
    if pixels <= limit:
        return ""
    what = f"{size.width} × {size.height} pixels" + (f" in {frames} frames" if frames > 1 else "")
    return (
        f"too large: {what} are {pixels / 1e6:,.0f} million, {pixels / limit:,.1f} times "
        f"the {limit / 1e6:,.0f} million allowed (max_pixels)"
    )
