"""What lies open: asked before more files are claimed."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, text

from inboxd.ledger.form import stamp
from inboxd.ledger.runs import paused


@dataclass(frozen=True, slots=True)
class DeskState:
    """What lies open: files being read, and their pages that could be claimed now."""

    paused: bool
    open_files: int
    pending_pages: int  # not counted beyond MANY_PAGES


MANY_PAGES = 4096

# CROSS JOIN keeps SQLite to this order: the files being read are few.
_PENDING_NOW = text(
    """
    SELECT count(*) FROM (
        SELECT 1 FROM files f CROSS JOIN pages p ON p.file = f.id
        WHERE f.state = 'reading' AND f.delivery = 'none' AND f.pages IS NOT NULL AND p.state = 'pending'
            AND (p.next_try_at IS NULL OR p.next_try_at <= :at)
        LIMIT :many
    )
    """
)
_OPEN_FILES = text("SELECT count(*) FROM files WHERE state = 'reading' AND delivery = 'none'")


def desk_state(conn: Connection, *, now: float) -> DeskState:
    """Whether a person paused the work, and how much of it lies open."""
    return DeskState(
        paused=paused(conn),
        open_files=conn.execute(_OPEN_FILES).scalar_one(),
        pending_pages=conn.execute(_PENDING_NOW, {"at": stamp(now), "many": MANY_PAGES}).scalar_one(),
    )
