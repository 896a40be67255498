"""Verbs of the way out: which outputs are on disk, and which are still owed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, and_, bindparam, exists, select, text, update
from sqlalchemy.dialects.sqlite import insert

from inboxd.core.lifecycle import FileState
from inboxd.core.naming import display
from inboxd.ledger import conditions as when
from inboxd.ledger.conditions import Delivery
from inboxd.ledger.duplicates import deliver_with
from inboxd.ledger.form import AT_ONCE, split, stamp
from inboxd.ledger.moving import event, happened, to_state
from inboxd.ledger.schema import files, outputs
from inboxd.model import Due, FileId, InboxId, Written

_WRITTEN = insert(outputs)
_WRITTEN = _WRITTEN.on_conflict_do_update(
    index_elements=[outputs.c.folder, outputs.c.name],
    set_={column: _WRITTEN.excluded[column] for column in ("file", "path", "format", "sha256", "size", "written")},
)
_IS_WRITTEN = and_(files.c.state != FileState.READING, exists().where(outputs.c.file == files.c.id))
_OWED = (
    select(files.c.id, files.c.folder, _IS_WRITTEN.label("is_written"))
    .where(text(when.OWED), files.c.next_delivery_at <= bindparam("at"))
    .limit(bindparam("limit"))
)
_HOLD = update(files).where(  # by the folder: what is owed is always the latest at its path
    text(when.CURRENT),
    files.c.inbox == bindparam("inbox_"),
    files.c.folder == bindparam("folder_"),
    text(when.OWED),
    files.c.next_delivery_at < bindparam("until"),
)
_OLDEST_FIRST = (files.c.next_delivery_at, files.c.id)
_NEWEST_FIRST = (files.c.next_delivery_at.desc(), files.c.id.desc())
_STANDS = select(files.c.state, files.c.delivery, files.c.pages).where(files.c.id == bindparam("file"))
_UNREAD = text(
    f"""
    UPDATE files SET delivery = '{Delivery.NONE}', delivery_reason = '', next_delivery_at = NULL
    WHERE {when.OWED} AND (state = '{FileState.QUARANTINED}' OR state = '{FileState.DUPLICATE}' AND EXISTS (
        SELECT 1 FROM files o
        WHERE o.id = files.duplicate_of AND o.state NOT IN ('{FileState.DONE}', '{FileState.DUPLICATE}')
    ))
    """  # noqa: S608 - conditions of our own
)
_ENDING_IN = frozenset({FileState.DONE, FileState.DUPLICATE})
_NOTHING_OWED = {"delivery": Delivery.DELIVERED, "delivery_reason": "", "next_delivery_at": None}


def delivered(
    conn: Connection, file: FileId, written: Sequence[Written], *, archiving: bool = False, now: float
) -> bool:
    """The outputs of a file are on disk: it is done, and its duplicates are owed theirs.

    With `archiving` it stays owed until `archived`: a crash in between must not leave the original in its inbox.
    False when it was done before, and only its archiving is still owed, or when it vanished or was requeued
    meanwhile; the outputs are recorded as ours all the same.
    """
    row = conn.execute(_STANDS, {"file": file}).one_or_none()
    if row is None:
        return False
    at = stamp(now)
    if written:
        conn.execute(_WRITTEN, [_row(file, output, at) for output in written])
    said = (
        {"delivery": Delivery.OWED, "delivery_reason": "", "next_delivery_at": AT_ONCE} if archiving else _NOTHING_OWED
    )
    if row.state == FileState.READING and row.delivery == Delivery.OWED:
        to_state(conn, file, FileState.DONE, now=now, reason="", **said)
        happened(conn, event(at, "done", file=file))
        deliver_with(conn, file, row.pages)
        return True
    if row.state in _ENDING_IN and not (archiving and row.delivery == Delivery.OWED):
        conn.execute(update(files).where(files.c.id == file).values(said))
        happened(conn, event(at, "delivered", file=file))
        return True
    return False


def archived(conn: Connection, file: FileId, path: bytes, *, now: float) -> None:
    """The original of a delivered file is in the archive, at this absolute path."""
    closed = update(files).where(files.c.id == file, files.c.state.in_(sorted(_ENDING_IN)), text(when.OWED))
    if conn.execute(closed.values(_NOTHING_OWED)).rowcount:
        happened(conn, event(stamp(now), "archived", display(path), file=file))


def undelivered(conn: Connection, file: FileId, reason: str, next_try_at: float, *, now: float) -> bool:
    """The outputs of a file can't be written now: the result is kept, and owed again from `next_try_at` on.

    True when that is news: the reason is another than last time.
    """
    row = conn.execute(select(files.c.delivery_reason).where(files.c.id == file, text(when.OWED))).one_or_none()
    if row is None:
        return False
    later = {"delivery_reason": reason, "next_delivery_at": stamp(next_try_at)}
    conn.execute(update(files).where(files.c.id == file).values(later))
    is_news: bool = row.delivery_reason != reason
    if is_news:
        happened(conn, event(stamp(now), "undelivered", reason, file=file))
    return is_news


def vanished(conn: Connection, file: FileId, reason: str, *, now: float) -> bool:
    """The original of a done or duplicate file is gone: nothing is owed for it any more.

    False, and nothing done, for a file that is not final: a scan will tell whether it was deleted or renamed.
    """
    nothing = {"delivery": Delivery.NONE, "delivery_reason": reason, "next_delivery_at": None}
    closed = update(files).where(files.c.id == file, files.c.state.in_(sorted(_ENDING_IN)), text(when.OWED))
    if not conn.execute(closed.values(nothing)).rowcount:
        return False
    happened(conn, event(stamp(now), "vanished", reason, file=file))
    return True


def hold(
    conn: Connection, inbox: InboxId, folder: bytes, reason: str, until: float, *, moves_only: bool = False
) -> None:
    """Nothing that is owed in a folder, or with `moves_only` no move to the archive, is tried before `until`."""
    held = _HOLD.where(_IS_WRITTEN) if moves_only else _HOLD
    later = {"delivery_reason": reason, "next_delivery_at": stamp(until)}
    conn.execute(held.values(later), {"inbox_": inbox, "folder_": folder, "until": stamp(until)})


def shut(conn: Connection, inbox: InboxId, reason: str) -> None:
    """Say why nothing that is owed in a whole inbox is tried."""
    untold = update(files).where(text(when.OWED), files.c.inbox == inbox, files.c.delivery_reason == "")
    conn.execute(untold.values(delivery_reason=reason))


def owed(conn: Connection, limit: int, *, inbox: InboxId | None = None, now: float) -> list[Due]:
    """Files, of one inbox or of all, whose outputs are to be written now.

    All of their pages, or those of their original, are final. Where there are more than `limit`, the
    last one is the newest: while older ones keep coming it would never be among the first.
    """
    asked = _OWED if inbox is None else _OWED.where(files.c.inbox == inbox)
    at = stamp(now)
    found = list(conn.execute(asked.order_by(*_OLDEST_FIRST), {"at": at, "limit": limit}))
    if len(found) == limit > 1:
        found[-1:] = conn.execute(asked.order_by(*_NEWEST_FIRST), {"at": at, "limit": 1})
    return [Due(FileId(row.id), row.folder, bool(row.is_written)) for row in found]


def orphaned(conn: Connection, configured: Sequence[InboxId], reason: str, *, now: float) -> None:
    """Say why files of inboxes that are not `configured` any more stay owed."""
    conn.execute(update(files).where(text(when.OWED), files.c.inbox.not_in(configured)).values(delivery_reason=reason))


def call_off(conn: Connection) -> None:
    """Nothing is owed for what is not read: not in quarantine, nor for a duplicate before its original is done.

    An older inboxd left duplicates owed when their original was requeued, and for ever when it then could not be
    read. They get their outputs with their original, as if they had just come.
    """
    conn.execute(_UNREAD)


def _row(file: FileId, output: Written, at: str) -> dict[str, object]:
    folder, name = split(output.path)
    return {
        "file": file,
        "folder": folder,
        "name": name,
        "path": display(output.path),
        "format": output.format,
        "sha256": output.sha256,
        "size": output.size,
        "written": at,
    }
