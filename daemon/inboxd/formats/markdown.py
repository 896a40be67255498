"""Markdown: the text for a person to read, pages apart, with a warning where a page must not be trusted.

The text of a page is what the engine wrote and goes in as it is. Everything of ours around it is escaped, and no
file name appears, so nothing but the scanned page itself has a say in what is shown.
"""

from __future__ import annotations

import re

from inboxd.formats import wording
from inboxd.model import PageReading, PageState, Reading

_INLINE = re.compile(r"([\\`*_\[\]~$])")  # all that means something within a line, but for HTML


def encode(reading: Reading) -> bytes:
    """UTF-8 Markdown; from the second page on each begins with a rule and a line `<!-- page N -->`."""
    document = ""
    trouble = wording.summary(reading)
    if trouble:
        document = f"> **Check this text against the original**: {trouble}.\n\n"
    for index, page in enumerate(reading.pages):
        if index:
            # The rule needs the empty line above, or it would make a heading of the page's last line.
            document += f"---\n<!-- page {page.number} -->\n\n"
        document += _page(page) + "\n\n"
    return (document.rstrip("\n") + "\n").encode()


def _page(page: PageReading) -> str:
    text = wording.page_text(page.text)
    note = wording.note(page)
    if page.state is PageState.OK:
        return text
    if page.state is PageState.BLANK:
        return f"*({note})*"
    warning = f"> **{note.capitalize()}**: {_plain(wording.reason(page.reason))}"
    if remark := wording.remark(page):
        warning += f"\n>\n> Something of it may be missing: {_plain(remark)}"
    return f"{warning}\n\n{text}".rstrip("\n")


def _plain(text: str) -> str:
    """`text` such that Markdown shows its very characters."""
    return _INLINE.sub(r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;")
