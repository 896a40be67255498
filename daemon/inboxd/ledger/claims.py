"""Verbs of the work: files and pages are claimed, and their attempts counted, before anything is done to them."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence

from sqlalchemy import INTEGER, Connection, bindparam, delete, insert, select, text, update

from inboxd.core.lifecycle import FileState
from inboxd.ledger import conditions as when
from inboxd.ledger.conditions import Delivery
from inboxd.ledger.desk import DeskState, desk_state
from inboxd.ledger.finishing import (
    finish_page,
    release_files,
    release_pages,
    retry_file,
    retry_page,
)
from inboxd.ledger.form import AT_ONCE, join, stamp
from inboxd.ledger.moving import AnyRow, chunks, event, happened
from inboxd.ledger.runs import paused
from inboxd.ledger.schema import batches, files, pages
from inboxd.model import BatchId, FileClaim, FileId, InboxId, Kind, PageClaim, PageId, PageState, RunId

__all__ = [
    "DeskState",
    "admit",
    "claim_files",
    "claim_pages",
    "desk_state",
    "finish_page",
    "opened",
    "release_files",
    "release_pages",
    "retry_file",
    "retry_page",
    "waits_alone",
]

TURN = 8
"""Pages of one file that are claimed before another's turn: most documents are no longer. Page by page they would all
be done at the end of the queue only, and a render process would open a file anew for each page."""

_DUE = (
    update(files)
    .where(text(when.RETRYING), files.c.next_try_at <= bindparam("at"))
    .values(state=FileState.READY, next_try_at=None)
)
_READY = select(files).where(text(when.READY))
_OLDEST = _READY.order_by(files.c.priority.desc(), files.c.id).limit(bindparam("limit"))
_NEWEST = _READY.order_by(files.c.priority.desc(), files.c.id.desc()).limit(bindparam("limit"))
_OPENED = text("UPDATE files SET pages = :count WHERE id = :file AND state = 'reading'")
_READ_BEFORE = text(
    """
    SELECT coalesce(sum(state IN ('ok', 'blank', 'suspect', 'failed') AND number <= :count), 0) AS read,
        max(number) AS last
    FROM pages WHERE file = :file
    """
)
_BEGUN = (
    update(files).where(files.c.id == bindparam("file")).values(begun=files.c.begun + bindparam("more", type_=INTEGER))
)
_LAY_OUT = text(
    """
    INSERT INTO pages (file, number, state)
    WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < :count)
    SELECT :file, number, 'pending' FROM numbers WHERE true
    ON CONFLICT (file, number) DO NOTHING
    """
)
_WITH_PAGES_DUE = text(
    """
    SELECT f.id, f.inbox, f.priority, f.begun, f.kind, f.sha256, f.size FROM files f
    WHERE f.state = 'reading' AND f.delivery = 'none' AND f.pages IS NOT NULL AND EXISTS (
        SELECT 1 FROM pages p
        WHERE p.file = f.id AND p.state = 'pending' AND p.deaths < 2
            AND (p.next_try_at IS NULL OR p.next_try_at <= :at)
    )
    """
)
_PAGES_DUE = text(
    """
    SELECT id, file, number, attempts, deaths FROM pages
    WHERE file = :file AND state = 'pending' AND deaths < 2 AND (next_try_at IS NULL OR next_try_at <= :at)
    ORDER BY number LIMIT :limit
    """
)
# CROSS JOIN keeps SQLite to this order: such pages are few.
_ALONE = text(
    """
    SELECT p.id, p.file, p.number, p.attempts, p.deaths, f.inbox, f.kind, f.sha256, f.size
    FROM pages p CROSS JOIN files f ON f.id = p.file
    WHERE p.state = 'pending' AND p.deaths >= 2 AND (p.next_try_at IS NULL OR p.next_try_at <= :at)
        AND f.state = 'reading' AND f.pages IS NOT NULL
    ORDER BY p.id LIMIT :limit
    """
)


def claim_files(conn: Connection, limit: int, run: RunId, *, newest: bool = False, now: float) -> list[FileClaim]:
    """Up to `limit` files to open, ready ones and those whose retry is due; the attempt is counted.

    Highest priority first, then the one that waits longest, or with `newest` the one that came last.
    """
    if limit <= 0:
        return []
    at = stamp(now)
    conn.execute(_DUE, {"at": at})
    claims = [
        FileClaim(
            file=FileId(row.id),
            inbox=InboxId(row.inbox),
            path=join(row.folder, row.name),
            kind=Kind(row.kind),
            sha256=row.sha256,
            size=row.size,
            attempt=row.attempts + 1,
            deaths=row.deaths,
        )
        for row in conn.execute(_NEWEST if newest else _OLDEST, {"limit": limit})
    ]
    for chunk in chunks([claim.file for claim in claims]):
        conn.execute(
            update(files)
            .where(files.c.id.in_(chunk))
            # Without a number of pages until `opened` gives it: pages of an earlier life wait for that.
            .values(state=FileState.READING, attempts=files.c.attempts + 1, run=run, started=at, pages=None)
        )
    happened(conn, *(event(at, "claimed", f"attempt {claim.attempt}", file=claim.file, run=run) for claim in claims))
    return claims


def opened(conn: Connection, file: FileId, count: int, *, now: float) -> bool:
    """A claimed file opens and has `count` pages, at least one: those not read in an earlier life are laid out.

    True when there are none of those: only the outputs are missing.

    Raises:
        ValueError: it has no page.
    """
    if count < 1:
        raise ValueError("a document without pages is refused, not opened")
    if not conn.execute(_OPENED, {"file": file, "count": count}).rowcount:
        return False  # it vanished or was requeued meanwhile
    at = stamp(now)
    before = conn.execute(_READ_BEFORE, {"file": file, "count": count}).one()
    if (before.last or 0) > count:
        conn.execute(delete(pages).where(pages.c.file == file, pages.c.number > count))
    conn.execute(_LAY_OUT, {"file": file, "count": count})
    is_complete = bool(before.read == count)
    if before.read:
        owed = {"delivery": Delivery.OWED, "next_delivery_at": AT_ONCE} if is_complete else {}
        conn.execute(update(files).where(files.c.id == file).values(begun=before.read, **owed))
    detail = f"{count} pages, {before.read} read before" if before.read else f"{count} pages"
    happened(conn, event(at, "opened", detail, file=file))
    return is_complete


def claim_pages(conn: Connection, limit: int, run: RunId, *, alone: bool = False, now: float) -> list[PageClaim]:
    """Up to `limit` pages to render and read, of files that are open; the attempt is counted.

    Highest priority first; then of the file that has had the fewest turns of `TURN` pages, so that small documents
    overtake large ones, and each comes out whole before the next is begun; then in order. A page that two processes
    died with is claimed only with `alone`, and then nothing else.
    None while a person has paused the work.
    """
    if limit <= 0 or paused(conn):
        return []
    at = stamp(now)
    claims = _alone(conn, limit, at) if alone else _fairly(conn, limit, at)
    for chunk in chunks([claim.page for claim in claims]):
        conn.execute(
            update(pages)
            .where(pages.c.id.in_(chunk))
            .values(
                state=PageState.IN_FLIGHT,
                attempts=pages.c.attempts + 1,
                at_risk=0,
                run=run,
                claimed=at,
                next_try_at=None,
            )
        )
    if begun := Counter(claim.file for claim in claims):
        conn.execute(_BEGUN, [{"file": file, "more": more} for file, more in begun.items()])
    return claims


def waits_alone(conn: Connection, *, now: float) -> bool:
    """Whether a page is due that must be read alone: two processes died with it."""
    return conn.execute(_ALONE, {"at": stamp(now), "limit": 1}).first() is not None


def admit(
    conn: Connection, run: RunId, engine: str, pages_: Sequence[PageId], *, isolated: bool = False, now: float
) -> BatchId:
    """Pages that go to the engine together: a row for the micro-batch, before the engine sees it.

    Unless the engine is `isolated` from the daemon's process, the daemon's death while they are in it counts as theirs.
    """
    row = conn.execute(
        insert(batches).values(run=run, engine=engine, pages=len(pages_), admitted=stamp(now)).returning(batches.c.id)
    )
    batch = BatchId(row.scalar_one())
    for chunk in chunks(pages_):
        conn.execute(update(pages).where(pages.c.id.in_(chunk)).values(batch=batch, at_risk=int(not isolated)))
    return batch


def _fairly(conn: Connection, limit: int, at: str) -> list[PageClaim]:
    """Pour `limit` out over the open files by turns, always to the one with the fewest; pages are fetched as needed."""
    queue = [
        (-row.priority, row.begun // TURN, row.id, row.begun, row) for row in conn.execute(_WITH_PAGES_DUE, {"at": at})
    ]
    heapq.heapify(queue)
    due: dict[int, Iterator[AnyRow]] = {}
    claims: list[PageClaim] = []
    while queue and len(claims) < limit:
        priority, _, file, begun, row = heapq.heappop(queue)
        if file not in due:
            due[file] = iter(conn.execute(_PAGES_DUE, {"file": file, "at": at, "limit": limit}).all())
        if (page := next(due[file], None)) is not None:
            claims.append(_claim(page, row))
            heapq.heappush(queue, (priority, (begun + 1) // TURN, file, begun + 1, row))
    return claims


def _alone(conn: Connection, limit: int, at: str) -> list[PageClaim]:
    return [_claim(row, row) for row in conn.execute(_ALONE, {"at": at, "limit": limit})]


def _claim(page: AnyRow, file: AnyRow) -> PageClaim:
    return PageClaim(
        page=PageId(page.id),
        file=FileId(page.file),
        inbox=InboxId(file.inbox),
        number=page.number,
        attempt=page.attempts + 1,
        deaths=page.deaths,
        kind=Kind(file.kind),
        sha256=file.sha256,
        size=file.size,
    )
