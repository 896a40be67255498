"""What the C decoders say on standard error, which a worker keeps in memory: the only sign of some damage.

The pool makes that memory and gives it to the worker as its standard error, so it also has a dying worker's last words.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from inboxd.core.showing import one_line

MEMORY = "inboxd worker says"
_STDERR = 2
_MOST = 8192  # bytes
_LINES = 5
_LINE = 200  # characters
_OPENCV = re.compile(r"^\[ ?[A-Z]+:\d+@[\d.]+\] global \S+ \S+ +")
_LIMITS = re.compile(r"^.*?: ?error: \(-?\d+:[^)]*\) ?", re.DOTALL)


def heard() -> tuple[str, ...]:
    """Lines said since the last call; nothing where standard error is not ours."""
    if not _ours():
        return ()
    said = os.pread(_STDERR, _MOST, 0)
    os.ftruncate(_STDERR, 0)
    os.lseek(_STDERR, 0, os.SEEK_SET)
    return tidied(said)


def tidied(said: bytes) -> tuple[str, ...]:
    """The lines of `said`, each once, without OpenCV's preambles, cut to what a person will read."""
    lines: dict[str, None] = {}
    for line in said.decode(errors="replace").splitlines():
        text = _LIMITS.sub("", _OPENCV.sub("", line)).strip()
        if text:
            lines[one_line(text)[:_LINE]] = None
    return tuple(lines)[:_LINES]


@cache
def _ours() -> bool:
    return Path(f"/proc/self/fd/{_STDERR}").readlink().name.startswith(f"memfd:{MEMORY}")
