"""Plain text: pages parted by form feeds, notes of ours in square brackets."""

from __future__ import annotations

from inboxd.formats import wording
from inboxd.model import PageReading, PageState, Reading


def encode(reading: Reading) -> bytes:
    """UTF-8 text with exactly one form feed between two pages and none elsewhere."""
    return "\f".join(_page(page) for page in reading.pages).encode()


def _page(page: PageReading) -> str:
    text = wording.page_text(page.text)
    if page.state in {PageState.SUSPECT, PageState.FAILED}:
        remark = wording.remark(page)
        said = f"\n[something of it may be missing: {remark}]" if remark else ""
        text = f"[{wording.note(page)}: {wording.reason(page.reason)}]{said}\n{text}"
    return text.rstrip("\n") + "\n" if text else ""
