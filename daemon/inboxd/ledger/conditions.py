"""The conditions behind the ledger's partial indexes, written out once for tables, verbs and readers.

They are literal, not bound: SQLite uses a partial index only where it can see, when it prepares the statement,
that the index's condition holds.
"""

from __future__ import annotations

from enum import StrEnum

from inboxd.core.lifecycle import FINAL, FileState
from inboxd.model import PageState


class Delivery(StrEnum):
    """Where a file's outputs stand."""

    NONE = "none"  # not all of its pages are final
    OWED = "owed"  # to be written, at `next_delivery_at`
    DELIVERED = "delivered"


def one_of(*states: StrEnum) -> str:
    """An SQL list of states."""
    return f"({', '.join(repr(str(state)) for state in states)})"


OPEN_STATES = tuple(state for state in FileState if state not in FINAL)
"""A file in one of these moves on by itself."""
ORIGINAL_STATES = (
    FileState.DONE,
    FileState.READY,
    FileState.READING,
    FileState.RETRYING,
    FileState.QUARANTINED,
)
"""A file in one of these is what a later file of the same content is a duplicate of."""

CURRENT = "current = 1"
EARLIER = "current = 0"
READY = f"state = '{FileState.READY}'"
RETRYING = f"state = '{FileState.RETRYING}'"
BEING_READ = f"state = '{FileState.READING}' AND delivery = '{Delivery.NONE}'"
NEEDS_COPY = (
    f"state IN {one_of(FileState.READY, FileState.READING, FileState.RETRYING)} AND delivery = '{Delivery.NONE}'"
)
"""Its copy in the spool is still to be read; once all pages are, only outputs are owed, however long."""
OWED = f"delivery = '{Delivery.OWED}'"
ORIGINAL = f"state IN {one_of(*ORIGINAL_STATES)}"
DUPLICATE = "duplicate_of IS NOT NULL"
OPEN = f"current = 1 AND state IN {one_of(*OPEN_STATES)}"
MAY_HAVE_MOVED = f"current = 1 AND state IN {one_of(*OPEN_STATES, FileState.VANISHED)}"

PENDING = f"state = '{PageState.PENDING}'"
IN_FLIGHT = f"state = '{PageState.IN_FLIGHT}'"
ALONE = f"state = '{PageState.PENDING}' AND deaths >= 2"
"""A page that two processes died with is read when nothing else is in flight: then only it can be to blame."""
DOUBTFUL = f"state IN {one_of(PageState.SUSPECT, PageState.FAILED)}"
FINISHED = "finished IS NOT NULL"

OF_A_FILE = "file IS NOT NULL"
