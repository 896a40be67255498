"""The commented sample in etc/inboxd.toml, filled in for `inboxd init`: the sample is the template."""

from __future__ import annotations

import re
from collections.abc import Sequence

from inboxd.resources import folder

_BETWEEN_SECTIONS = "\n\n\n"


def filled(state: str, inboxes: Sequence[str], engine: str) -> bytes:
    """The sample configuration with these values; the first inbox carries the comments, the others follow it."""
    text = (folder("etc") / "inboxd.toml").read_text(encoding="utf-8")
    text = _set(text, "state", state)
    text = _set(text, "name", engine)
    text = _set(text, "path", inboxes[0])
    end = text.index(_BETWEEN_SECTIONS, text.index("[[inbox]]"))
    more = "".join(f"\n\n[[inbox]]\npath = {_quoted(path)}" for path in inboxes[1:])
    return (text[:end] + more + text[end:]).encode("utf-8", "surrogateescape")


def _set(text: str, name: str, value: str) -> str:
    return re.sub(rf"(?m)^{name} = .*$", lambda _: f"{name} = {_quoted(value)}", text, count=1)


def _quoted(value: str) -> str:
    """A TOML basic string; a byte that is no UTF-8 stays as it is, which inboxd.config reads back."""
    escaped = re.sub(r'[\x00-\x1f"\\\x7f]', lambda match: f"\\u{ord(match[0]):04x}", value)
    return f'"{escaped}"'
