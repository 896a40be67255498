"""Formats: a whole reading to the bytes of each output. Pure: the same reading always gives the same bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from inboxd.formats import json, markdown, text
from inboxd.model import Reading

_TEXTUAL: dict[str, Callable[[Reading], bytes]] = {"md": markdown.encode, "txt": text.encode}


def render(reading: Reading, formats: Sequence[str]) -> dict[str, bytes]:
    """Each wanted format's bytes, the JSON last: it names the hashes of the others.

    Args:
        formats: of "md", "txt" and "json".
    """
    outputs = {name: encode(reading) for name, encode in _TEXTUAL.items() if name in formats}
    if "json" in formats:
        outputs["json"] = json.encode(reading, {name: sha256(data) for name, data in outputs.items()})
    return outputs


def sha256(data: bytes) -> str:
    """Lower-case hexadecimal, as the ledger keeps it."""
    return hashlib.sha256(data).hexdigest()
