"""What becomes of the files that wait for a first arrival of the same content: none is lost when that one goes."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select, text, update

from inboxd.core.lifecycle import FileState
from inboxd.ledger import conditions as when
from inboxd.ledger.conditions import Delivery
from inboxd.ledger.form import AT_ONCE, stamp
from inboxd.ledger.moving import event, happened, settle, to_state
from inboxd.ledger.schema import files
from inboxd.model import FileId

_IS_WAITING = (
    files.c.duplicate_of == bindparam("original"),
    files.c.state == FileState.DUPLICATE,
    files.c.delivery != Delivery.DELIVERED,
    text(when.CURRENT),
)
_WAITING = select(files.c.id).where(*_IS_WAITING).order_by(files.c.id)
_NOT_YET = {"delivery": Delivery.NONE, "delivery_reason": "", "next_delivery_at": None}
_WAIT_FOR = update(files).where(*_IS_WAITING).values(duplicate_of=bindparam("first"), **_NOT_YET)
_DELIVER = (
    update(files).where(*_IS_WAITING).values(delivery=Delivery.OWED, next_delivery_at=AT_ONCE, pages=bindparam("count"))
)


def waiting_for(conn: Connection, original: FileId) -> list[FileId]:
    """Files with the content of `original` whose own outputs are not written yet; the first arrival first."""
    return [FileId(file) for file in conn.scalars(_WAITING, {"original": original})]


def promote(conn: Connection, original: FileId, why: str, *, now: float) -> None:
    """`original` will not be read: the first that waits for it takes its place, and the rest wait for that one."""
    first = next(iter(waiting_for(conn, original)), None)
    if first is None:
        return
    settle(conn, first, why, now=now)  # which waits for `original` no more
    happened(conn, event(stamp(now), "promoted", why, file=first))
    conn.execute(_WAIT_FOR, {"original": original, "first": first})


def quarantine_with(conn: Connection, original: FileId, reason: str, *, now: float) -> None:
    """The content of `original` can't be read: neither can that of its duplicates."""
    for file in waiting_for(conn, original):
        to_state(conn, file, FileState.QUARANTINED, now=now, reason=reason, **_NOT_YET)
        happened(conn, event(stamp(now), "quarantined", reason, file=file))


def deliver_with(conn: Connection, original: FileId, pages: int | None) -> None:
    """`original` is done: those that waited for it get outputs of their own."""
    conn.execute(_DELIVER, {"original": original, "count": pages})


def follow(conn: Connection, file: FileId, original: FileId) -> None:
    """`file` turned out to be a duplicate itself: what pointed at it points at `original`."""
    conn.execute(update(files).where(files.c.duplicate_of == file).values(duplicate_of=original))
