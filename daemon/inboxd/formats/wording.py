"""What every format says the same way: clean page text, safe reasons, and which pages need a look."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from inboxd.core.showing import one_line
from inboxd.model import PageReading, PageState, Reading

_BREAKS = re.compile("\r\n|[\r\v\f\x85]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")


def page_text(text: str) -> str:
    """A page's text as it goes out: NFC, `\\n` for every line break, no other control character but the tab.

    Never NFKC: that would turn `x²` into `x2` and `½` into `1⁄2`.
    """
    return unicodedata.normalize("NFC", _CONTROLS.sub("", _BREAKS.sub("\n", text))).strip("\n")


def reason(text: str) -> str:
    """A reason as one line that nothing obeys: it may quote file names and decoders."""
    return one_line(unicodedata.normalize("NFC", " ".join(text.split()))) or "no reason was recorded"


def note(page: PageReading) -> str:
    """What a reader must know of this page besides its text, without the reason; "" when nothing."""
    match page.state:
        case PageState.OK:
            return ""
        case PageState.BLANK:
            return f"page {page.number} is blank"
        case PageState.SUSPECT:
            return f"page {page.number} is doubtful"
        case _:
            return f"page {page.number} could not be read"


def remark(page: PageReading) -> str:
    """What the decoder said of a doubtful page besides its reason, as one line; "" when nothing."""
    if page.state is not PageState.SUSPECT:
        return ""
    known = reason(page.reason)
    return "; ".join(said for warning in page.warnings if (said := reason(warning)) not in known)


def summary(reading: Reading) -> str:
    """Which pages failed or are doubtful, as one sentence without a full stop; "" when none."""
    clauses = []
    for state, one, many in (
        (PageState.FAILED, "could not be read", "could not be read"),
        (PageState.SUSPECT, "is doubtful", "are doubtful"),
    ):
        numbers = [page.number for page in reading.pages if page.state is state]
        if numbers:
            single = len(numbers) == 1
            clauses.append(f"{'page' if single else 'pages'} {ranges(numbers)} {one if single else many}")
    return "; ".join(clauses)


def ranges(numbers: Sequence[int]) -> str:
    """Ascending page numbers, runs drawn together: `1, 3–5, 9`."""
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in _runs(numbers))


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
