"""Text from outside made safe to show: names and reasons can carry terminal escapes, line breaks and stray bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

# Control characters (C1 too: some terminals obey them), lone surrogates, and the marks that break a line or turn
# its direction on a screen. Joiners and soft hyphens are left alone: honest names use them.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str) -> str:
    """`text` as one line that no terminal acts on; bytes kept by surrogateescape show as `\\xNN`."""
    return _UNSAFE.sub(_escaped, text)


def to_json(value: object, *, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    """`value` as JSON that is readable in every script and still safe on a terminal and in UTF-8.

    Raises:
        TypeError: it holds something that JSON and `default` can't say.
    """
    dumped = json.dumps(value, ensure_ascii=False, indent=indent, default=default)
    return _UNSAFE.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", dumped)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
