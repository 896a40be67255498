"""JSON: everything that is known of a document and its pages, for programs; and the proof that the outputs are ours."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from inboxd.core.naming import display
from inboxd.core.showing import to_json
from inboxd.formats import wording
from inboxd.model import Box, PageReading, PageState, Reading

SCHEMA = "inboxd/1"
_UNSEALED = b"0" * 64
_PAGES = b',\n  "pages": [\n'
_HEAD_MAX = 64 * 1024  # bytes; a forger's file is not taken apart beyond them
_SEALED = re.compile(rb'\{\n  "schema": "inboxd/1",\n  "seal": "([0-9a-f]{64})",\n')


def encode(reading: Reading, beside: Mapping[str, str]) -> bytes:
    """UTF-8 JSON as etc/output.schema.json describes it, one line for each page.

    Args:
        beside: the SHA-256 of each other output of this reading, by format.
    """
    name = reading.path.rpartition(b"/")[2]
    states = Counter(page.state for page in reading.pages)
    counts = {"pages": len(reading.pages)} | {
        str(state): states[state] for state in (PageState.OK, PageState.BLANK, PageState.SUSPECT, PageState.FAILED)
    }
    head: dict[str, Any] = {"schema": SCHEMA, "seal": _UNSEALED.decode()} | _name(name)
    head |= {
        "sha256": reading.sha256,
        "size": reading.size,
        "kind": reading.kind,
        "duplicate_of": wording.page_text(reading.duplicate_of) or None,
        "counts": counts,
        "outputs": dict(beside),
    }
    lines = [f"  {to_json(key)}: {to_json(value)}" for key, value in head.items()]
    pages = ",\n".join(f"    {to_json(_page(page))}" for page in reading.pages)
    document = ("{\n" + ",\n".join(lines) + _PAGES.decode() + pages + "\n  ]\n}\n").encode()
    return document.replace(_UNSEALED, _seal(document), 1)


def proof(raw: bytes, sha256: str) -> dict[str, str] | None:
    """The hashes of the outputs that came with this JSON, its own under "json"; None where it proves nothing.

    It proves that we wrote it for the content `sha256`, and that nobody has changed a byte of it since: its seal is
    the SHA-256 of the document with the seal's own digits as zeros. No secret is in it, so it guards against
    mistakes, not against malice; whoever could forge it could as well write the outputs themselves.
    """
    sealed = _SEALED.match(raw)
    if sealed is None or _seal(raw.replace(sealed[1], _UNSEALED, 1)) != sealed[1]:
        return None
    head, pages, _ = raw.partition(_PAGES)
    if not pages or len(head) > _HEAD_MAX:
        return None
    try:
        document = json.loads(head + b"}")
        named, outputs = document["sha256"], document["outputs"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if named != sha256 or not isinstance(outputs, dict):
        return None
    return {**outputs, "json": hashlib.sha256(raw).hexdigest()}


def _seal(unsealed: bytes) -> bytes:
    return hashlib.sha256(unsealed).hexdigest().encode()


def _name(name: bytes) -> dict[str, str]:
    """The exact name; where JSON cannot carry it, a readable one and the bytes."""
    try:
        return {"name": name.decode()}
    except UnicodeDecodeError:
        return {"name": display(name), "name_bytes": name.hex()}


def _page(page: PageReading) -> dict[str, Any]:
    return {
        "number": page.number,
        "state": page.state,
        "reason": wording.reason(page.reason) if page.reason else "",
        "text": wording.page_text(page.text),
        "width": page.width,
        "height": page.height,
        "turned": page.turned,
        "engine": wording.page_text(page.engine),
        "model": wording.page_text(page.model),
        "finish": page.finish and wording.page_text(page.finish),
        "confidence": _rounded(page.confidence, 4),
        "tokens_in": page.tokens_in,
        "tokens_out": page.tokens_out,
        "attempts": page.attempts,
        "seconds": _rounded(page.seconds, 3),
        "warnings": [wording.reason(warning) for warning in page.warnings],
        "boxes": [_box(box) for box in page.boxes],
    }


def _box(box: Box) -> dict[str, Any]:
    return {
        "text": wording.page_text(box.text),
        "confidence": _rounded(box.confidence, 4),
        "box": [_rounded(edge, 1) for edge in (box.x0, box.y0, box.x1, box.y1)],
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return round(float(value), digits) if value is not None and math.isfinite(value) else None
