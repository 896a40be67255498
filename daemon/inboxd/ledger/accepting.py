"""The verb that takes a settled file in: is it new, a duplicate, unchanged, or something that we wrote ourselves?"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, select, text, update

from inboxd.core.lifecycle import FileState
from inboxd.ledger import conditions as when
from inboxd.ledger.conditions import Delivery
from inboxd.ledger.duplicates import deliver_with, follow, promote, quarantine_with
from inboxd.ledger.form import AT_ONCE, stamp
from inboxd.ledger.moving import AnyRow, event, happened, to_state
from inboxd.ledger.schema import events, files, outputs, pages
from inboxd.model import Arrival, FileId


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of an arrival.

    READY to be read; DUPLICATE of `original`; QUARANTINED as `original`, whose content can't be read; SKIPPED, an
    output of ours. When its path held the same content before (touched, copied again), the arrival's row is folded
    into that one, `original`, and `state` is its state: DONE, DUPLICATE or QUARANTINED. VANISHED: it went meanwhile.
    """

    state: FileState
    original: FileId | None = None
    reason: str = ""


_LOOK = text(
    f"""
    SELECT f.path, f.state, f.sha256, f.requeued,
        EXISTS (SELECT 1 FROM outputs WHERE sha256 = :sha256) AS is_output,
        (
            SELECT e.id FROM files e
            WHERE e.inbox = f.inbox AND e.folder = f.folder AND e.name = f.name AND e.{when.EARLIER} AND e.id < f.id
            ORDER BY e.id DESC LIMIT 1
        ) AS earlier,
        (
            SELECT o.id FROM files o
            WHERE o.sha256 = :sha256 AND o.{when.ORIGINAL} AND o.id <> f.id
                AND NOT (f.requeued AND o.state = 'quarantined')
            ORDER BY o.id LIMIT 1
        ) AS original
    FROM files f WHERE f.id = :file
    """  # noqa: S608 - conditions of our own
)


def accept(conn: Connection, arrival: Arrival, *, now: float) -> Accepted:
    """Take in a file that has settled and lies in the spool; says what became of it."""
    found = conn.execute(_LOOK, {"file": arrival.file, "sha256": arrival.sha256}).one_or_none()
    if found is None or found.state != FileState.SETTLING:
        return Accepted(FileState(found.state) if found else FileState.VANISHED)
    has_changed = found.sha256 not in (None, arrival.sha256)
    if found.requeued or has_changed:
        # Not before: were the original gone for good, its text would be all that is left of it.
        _forget_pages(conn, arrival.file)
    if has_changed:
        promote(conn, arrival.file, "its first arrival has other content now", now=now)
    if found.is_output:
        return _skip(conn, arrival, now=now)
    earlier = _file(conn, found.earlier)
    if earlier is not None and earlier.sha256 == arrival.sha256 and not found.requeued:
        if _has_ended(earlier):
            return _fold(conn, arrival, earlier, now=now)
        if not earlier.requeued:
            _carry_pages(conn, earlier.id, arrival.file)
    original = _file(conn, found.original)
    if original is None:
        _arrive(conn, arrival, FileState.READY, now=now)
        return Accepted(FileState.READY)
    if original.state == FileState.QUARANTINED:
        return _quarantine(conn, arrival, original, now=now)
    return _duplicate(conn, arrival, original, now=now)


def _carry_pages(conn: Connection, earlier: int, file: FileId) -> None:
    """Touched or replaced by a copy while it was on its way: what was read of it is not read again.

    Unless `file` was moved here with pages of its own: it keeps those.
    """
    if conn.scalar(select(pages.c.id).where(pages.c.file == file).limit(1)) is None:
        conn.execute(update(pages).where(pages.c.file == earlier).values(file=file))


def _forget_pages(conn: Connection, file: FileId) -> None:
    conn.execute(delete(pages).where(pages.c.file == file))
    conn.execute(update(files).where(files.c.id == file).values(pages=None, begun=0))


def _file(conn: Connection, file: int | None) -> AnyRow | None:
    if file is None:
        return None
    wanted = (
        files.c.id,
        files.c.path,
        files.c.state,
        files.c.reason,
        files.c.sha256,
        files.c.pages,
        files.c.delivery,
        files.c.requeued,
    )
    return conn.execute(select(*wanted).where(files.c.id == file)).one()


def _has_ended(earlier: AnyRow) -> bool:
    """Whether nothing was left to do for it when it was replaced."""
    if earlier.state == FileState.DUPLICATE:
        return bool(earlier.delivery == Delivery.DELIVERED)
    return earlier.state in (FileState.DONE, FileState.QUARANTINED)


def _arrive(
    conn: Connection, arrival: Arrival, state: FileState, *, now: float, detail: str = "", **values: object
) -> None:
    at = stamp(now)
    facts: dict[str, object] = {"reason": "", **_content(arrival), "requeued": 0, "settled": at, **values}
    to_state(conn, arrival.file, state, now=now, **facts)
    happened(conn, event(at, state, detail, file=arrival.file))


def _skip(conn: Connection, arrival: Arrival, *, now: float) -> Accepted:
    reason = "an output of inboxd"
    _arrive(conn, arrival, FileState.SKIPPED, now=now, detail=reason, reason=reason)
    promote(conn, arrival.file, f"its first arrival is {reason}", now=now)
    return Accepted(FileState.SKIPPED, reason=reason)


def _duplicate(conn: Connection, arrival: Arrival, original: AnyRow, *, now: float) -> Accepted:
    is_done = original.state == FileState.DONE
    _arrive(
        conn,
        arrival,
        FileState.DUPLICATE,
        now=now,
        detail=f"of {original.path}",
        duplicate_of=original.id,
        delivery=Delivery.OWED if is_done else Delivery.NONE,
        next_delivery_at=AT_ONCE if is_done else None,
        pages=original.pages if is_done else None,
    )
    follow(conn, arrival.file, original.id)
    if is_done:
        deliver_with(conn, original.id, original.pages)
    return Accepted(FileState.DUPLICATE, original.id)


def _quarantine(conn: Connection, arrival: Arrival, original: AnyRow, *, now: float) -> Accepted:
    """What could not be read is not tried again by itself, only because a copy was dropped."""
    detail = f"same content as {original.path}: {original.reason}"
    _arrive(
        conn,
        arrival,
        FileState.QUARANTINED,
        now=now,
        detail=detail,
        reason=original.reason,
        duplicate_of=original.id,
    )
    quarantine_with(conn, arrival.file, original.reason, now=now)
    return Accepted(FileState.QUARANTINED, original.id, original.reason)


def _fold(conn: Connection, arrival: Arrival, earlier: AnyRow, *, now: float) -> Accepted:
    """The path holds what it held before: the row of this arrival goes, the earlier one is the latest again."""
    follow(conn, arrival.file, earlier.id)
    conn.execute(update(outputs).where(outputs.c.file == arrival.file).values(file=earlier.id))
    conn.execute(delete(events).where(events.c.file == arrival.file))
    conn.execute(delete(files).where(files.c.id == arrival.file))
    signature = {name: value for name, value in _content(arrival).items() if name not in ("kind", "sha256")}
    conn.execute(update(files).where(files.c.id == earlier.id).values(current=1, **signature))
    happened(conn, event(stamp(now), "unchanged", file=earlier.id))
    if earlier.state == FileState.DONE:
        deliver_with(conn, earlier.id, earlier.pages)
        if earlier.delivery == Delivery.NONE:  # what was owed was called off when the path was taken
            owed = {"delivery": Delivery.OWED, "next_delivery_at": AT_ONCE}
            conn.execute(update(files).where(files.c.id == earlier.id).values(owed))
    return Accepted(FileState(earlier.state), FileId(earlier.id), earlier.reason)


def _content(arrival: Arrival) -> dict[str, object]:
    signature = arrival.signature
    return {
        "kind": arrival.kind,
        "sha256": arrival.sha256,
        "size": signature.size,
        "mtime_ns": signature.mtime_ns,
        "ctime_ns": signature.ctime_ns,
        "inode": signature.inode,
    }
