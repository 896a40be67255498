"""What an image file's header says, read before anything is decoded: size, frames, turn, proportions, transparency."""

from __future__ import annotations

import mmap
from dataclasses import dataclass

from inboxd.core.page_size import Size

UPRIGHT = 1
"""The orientation, as EXIF and TIFF number the eight, that needs no turn."""

Bytes = bytes | mmap.mmap


@dataclass(frozen=True, slots=True)
class Picture:
    """One page of an image file, as stored: before it is turned or stretched."""

    size: Size
    orientation: int = UPRIGHT
    x_density: float = 0  # pixels per inch, or any unit that both share; 0 unknown
    y_density: float = 0
    peak: int = 0  # the sample value that means white, where the file says; 0 unknown
    multiplied: bool = False  # decoded colours are already weakened by their transparency
    by_pillow: bool = False  # OpenCV would lose its transparency or does not know its compression
    directory: int = 0  # TIFF: where its directory lies
    orientation_at: int = 0  # TIFF: where the value of the orientation tag lies; 0 none


@dataclass(frozen=True, slots=True)
class Album:
    """An image file: a picture for each page; frames that are drawn over one another share the canvas's size."""

    pictures: tuple[Picture, ...]
    animated: bool = False  # a frame can only be had by drawing those before it
