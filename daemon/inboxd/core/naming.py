"""Names: an original's name to those of its outputs, our temporary names, and how a path is shown to a person."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from itertools import count

PREFIX = b".inboxd-"
"""Reserved: whatever starts with it in an inbox or an output folder is ours."""
NAME_MAX = 255
"""Bytes in a name on every Linux filesystem worth the name; some allow fewer."""
_TEMP = re.compile(rb"\.inboxd-[0-9a-f]{16}\.tmp")
_JOINERS = "\u200c\u200d"  # Persian, Hindi and emoji names are written with them
_HASH_DIGITS = 12


def candidates(name: bytes, format: str, limit: int = NAME_MAX) -> Iterator[bytes]:
    """Names for an output of `name`, the first choice first: `scan.pdf.md`, `scan.pdf.2.md`, `scan.pdf.3.md` …

    None is longer than `limit` bytes; a name that must be cut for that ends in a hash of the whole of it, so
    that two long names with the same beginning stay apart.
    """
    suffix = b"." + format.encode()
    yield _fitted(name, suffix, limit)
    for number in count(2):
        yield _fitted(name, b".%d" % number + suffix, limit)


def numbered(name: bytes, limit: int = NAME_MAX) -> Iterator[bytes]:
    """`name` itself, then `scan.2.pdf`, `scan.3.pdf` …: for a file that moves to where others may stand."""
    yield _fitted(name, b"", limit)
    dot = name.rfind(b".")
    stem, extension = (name[:dot], name[dot:]) if dot > 0 and len(name) - dot <= 16 else (name, b"")
    for number in count(2):
        yield _fitted(stem, b".%d" % number + extension, limit)


def temporary(token: str) -> bytes:
    """The name of a temporary file of ours; `token` is 16 hexadecimal digits."""
    return PREFIX + token.encode() + b".tmp"


def is_ours(name: bytes) -> bool:
    """Whether the name lies in what is reserved for us."""
    return name.startswith(PREFIX)


def is_temporary(name: bytes) -> bool:
    """Whether `temporary` makes such names: nothing else may be swept away."""
    return _TEMP.fullmatch(name) is not None


def display(path: bytes) -> str:
    r"""A path as one safe line of NFC text.

    Bytes that are not UTF-8 show as `\xNN`; control characters, line separators and format characters (those
    that turn or hide text) as `\u{N}`, a backslash as two. So the line says exactly which bytes the name has, but for
    what NFC makes equal.
    """
    shown: list[str] = []
    escaped = True  # a combining mark must not alter the character before it where that is an escape or a `/`
    for character in unicodedata.normalize("NFC", path.decode("utf-8", "surrogateescape")):
        code = ord(character)
        if 0xDC80 <= code <= 0xDCFF:
            shown.append(f"\\x{code - 0xDC00:02x}")
        elif character == "\\":
            shown.append("\\\\")
        elif _hides(character) or (escaped and unicodedata.category(character)[0] == "M"):
            shown.append(f"\\u{{{code:x}}}")
        else:
            shown.append(character)
            escaped = character == "/"
            continue
        escaped = True
    return "".join(shown)


def _hides(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and character not in _JOINERS


def _fitted(name: bytes, suffix: bytes, limit: int) -> bytes:
    if len(name) + len(suffix) <= limit:
        return name + suffix
    mark = b"~" + hashlib.sha256(name).hexdigest()[:_HASH_DIGITS].encode()
    return _cut(name, max(0, limit - len(mark) - len(suffix))) + mark + suffix


def _cut(name: bytes, length: int) -> bytes:
    """At most `length` bytes from the start, never ending inside a character or before its combining marks."""
    head = name[:length].decode("utf-8", "surrogateescape")
    whole = name.decode("utf-8", "surrogateescape")
    while head and not whole.startswith(head):
        head = head[:-1]  # the bytes of a character that was cut in two read as stray ones
    while head and len(head) < len(whole) and unicodedata.combining(whole[len(head)]):
        head = head[:-1]
    return head.encode("utf-8", "surrogateescape")
