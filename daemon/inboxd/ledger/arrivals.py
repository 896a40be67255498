"""Verbs of the way in: a settling file is taken in, waits, or is set aside; what is seen in a folder is in `seeing`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select, update

from inboxd.core.lifecycle import FileState
from inboxd.ledger.accepting import Accepted, accept
from inboxd.ledger.conditions import Delivery
from inboxd.ledger.duplicates import promote, quarantine_with
from inboxd.ledger.form import stamp
from inboxd.ledger.moving import count_death, event, happened, put_back_pages, settle, to_state
from inboxd.ledger.schema import files
from inboxd.ledger.seeing import gone, record, rename, unwatched
from inboxd.model import FileId

__all__ = [
    "Accepted",
    "accept",
    "gone",
    "quarantine",
    "record",
    "rename",
    "resettle",
    "skip",
    "unwatched",
    "waiting",
]

_ON_ITS_WAY = frozenset({FileState.READY, FileState.READING, FileState.RETRYING})


def waiting(conn: Connection, file: FileId, reason: str, *, now: float) -> None:
    """Say why a file still settles; the history gets a line only when that changes."""
    changed = conn.execute(
        update(files)
        .where(files.c.id == file, files.c.state == FileState.SETTLING, files.c.reason != reason)
        .values(reason=reason)
    )
    if changed.rowcount:
        happened(conn, event(stamp(now), "waiting", reason, file=file))


def resettle(conn: Connection, files_: Sequence[FileId], reason: str, *, now: float) -> int:
    """Take files that are on their way up again from their originals: their spool copies are lost.

    Pages already read are kept. Says how many were taken up.
    """
    lost = conn.scalars(select(files.c.id).where(files.c.id.in_(files_), files.c.state.in_(sorted(_ON_ITS_WAY)))).all()
    for file in lost:
        settle(conn, file, reason, now=now)
        happened(conn, event(stamp(now), "resettled", reason, file=file))
    return len(lost)


def quarantine(conn: Connection, file: FileId, reason: str, *, died: bool = False, now: float) -> None:
    """Set a file aside for a person; `reason` is for that person. `died`: so did a process, opening it.

    Duplicates that wait for it share its fate when its content was to blame, and take its place when it never
    came as far as having one.

    Raises:
        IllegalMove: it is final already.
    """
    came_from = conn.scalar(select(files.c.state).where(files.c.id == file))
    if not to_state(conn, file, FileState.QUARANTINED, now=now, reason=reason, delivery=Delivery.NONE):
        return
    if died:
        count_death(conn, file)
    put_back_pages(conn, [file])
    happened(conn, event(stamp(now), "quarantined", reason, file=file))
    if came_from == FileState.SETTLING:
        promote(conn, file, f"its first arrival was quarantined: {reason}", now=now)
    else:
        quarantine_with(conn, file, reason, now=now)


def skip(conn: Connection, file: FileId, reason: str, *, now: float) -> None:
    """A settling file is not for us, and `reason` says why.

    Raises:
        IllegalMove: it does not settle.
    """
    if to_state(conn, file, FileState.SKIPPED, now=now, reason=reason):
        happened(conn, event(stamp(now), "skipped", reason, file=file))
        promote(conn, file, f"its first arrival was skipped: {reason}", now=now)
