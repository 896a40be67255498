"""Verbs that end a claim: a page gets its last word or goes back, a file is tried again or goes back."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, text, update

from inboxd.core.lifecycle import FINAL_PAGE, FileState, IllegalMove
from inboxd.ledger import conditions as when
from inboxd.ledger.arrivals import quarantine
from inboxd.ledger.conditions import Delivery
from inboxd.ledger.form import AT_ONCE, stamp
from inboxd.ledger.moving import chunks, count_death, event, happened, pages_died, put_back_pages, to_state
from inboxd.ledger.schema import files, pages
from inboxd.model import BatchId, FileId, PageId, PageReading, PageState

_DOUBTFUL = frozenset({PageState.SUSPECT, PageState.FAILED})
_FINISH = (
    update(pages)
    .where(pages.c.id == bindparam("page"), text(when.IN_FLIGHT))
    .values(
        {
            column: bindparam(f"new_{column.name}")
            for column in (
                pages.c.state,
                pages.c.reason,
                pages.c.batch,
                pages.c.engine,
                pages.c.model,
                pages.c.finish,
                pages.c.confidence,
                pages.c.mean_logprob,
                pages.c.ink,
                pages.c.tokens_in,
                pages.c.tokens_out,
                pages.c.turned,
                pages.c.width,
                pages.c.height,
                pages.c.render_s,
                pages.c.queue_s,
                pages.c.first_token_s,
                pages.c.seconds,
                pages.c.finished,
                pages.c.text,
                pages.c.boxes,
                pages.c.warnings,
            )
        }
        | {pages.c.deaths: pages.c.deaths + bindparam("died")}
    )
    .returning(pages.c.file, pages.c.number)
)
_IS_OPEN = text(
    """
    SELECT EXISTS (SELECT 1 FROM pages WHERE file = :file AND state = 'in_flight')
        OR EXISTS (SELECT 1 FROM pages WHERE file = :file AND state = 'pending')
    """
)
_COMPLETE = (
    update(files).where(files.c.id == bindparam("file")).values(delivery=Delivery.OWED, next_delivery_at=AT_ONCE)
)
_IS_READ = text("SELECT EXISTS (SELECT 1 FROM pages WHERE file = :file AND state <> 'failed')")
_PUT_BACK = (
    update(pages)
    .where(text(when.IN_FLIGHT))
    .values(state=PageState.PENDING, deaths=pages.c.deaths + bindparam("died"))
    .returning(pages.c.file, pages.c.number)
)


def finish_page(
    conn: Connection,
    page: PageId,
    reading: PageReading,
    *,
    batch: BatchId | None = None,
    render_s: float | None = None,
    queue_s: float | None = None,
    first_token_s: float | None = None,
    mean_logprob: float | None = None,
    ink: float | None = None,
    died: bool = False,
    now: float,
) -> bool:
    """Keep a page's last word; True when it was the last that its file waited for. `died`: so did a process, of it.

    A file of which not one page could be read is quarantined: there is nothing to deliver.
    A page that is not in flight any more is left alone: its file vanished or was requeued meanwhile.

    Raises:
        IllegalMove: the state of `reading` is not final.
    """
    if reading.state not in FINAL_PAGE:
        raise IllegalMove(f"a page cannot be finished as {reading.state}")
    at = stamp(now)
    row = conn.execute(
        _FINISH,
        {
            "page": page,
            "died": int(died),
            "new_state": reading.state,
            "new_reason": reading.reason,
            "new_batch": batch,
            "new_engine": reading.engine,
            "new_model": reading.model,
            "new_finish": reading.finish,
            "new_confidence": reading.confidence,
            "new_mean_logprob": mean_logprob,
            "new_ink": ink,
            "new_tokens_in": reading.tokens_in,
            "new_tokens_out": reading.tokens_out,
            "new_turned": reading.turned,
            "new_width": reading.width,
            "new_height": reading.height,
            "new_render_s": render_s,
            "new_queue_s": queue_s,
            "new_first_token_s": first_token_s,
            "new_seconds": reading.seconds,
            "new_finished": at,
            "new_text": reading.text,
            "new_boxes": _json([[box.text, box.confidence, box.x0, box.y0, box.x1, box.y1] for box in reading.boxes]),
            "new_warnings": _json(list(reading.warnings)),
        },
    ).one_or_none()
    if row is None:
        return False
    if reading.state in _DOUBTFUL:
        happened(conn, event(at, f"page {reading.state}", reading.reason, file=row.file, page=row.number))
    if conn.execute(_IS_OPEN, {"file": row.file}).scalar_one():
        return False
    if not conn.execute(_IS_READ, {"file": row.file}).scalar_one():
        quarantine(conn, FileId(row.file), f"no page of it could be read: {reading.reason}", now=now)
        return True
    conn.execute(_COMPLETE, {"file": row.file})
    happened(conn, event(at, "read", file=row.file))
    return True


def retry_page(
    conn: Connection, page: PageId, reason: str, next_try_at: float, *, died: bool = False, now: float
) -> None:
    """A page in flight failed, `died` with a process perhaps, and may be claimed again from `next_try_at` on."""
    statement = _PUT_BACK.where(pages.c.id == page).values(reason=reason, next_try_at=stamp(next_try_at))
    for row in conn.execute(statement, {"died": int(died)}).all():
        happened(conn, event(stamp(now), "page retried", reason, file=row.file, page=row.number))


def release_pages(
    conn: Connection, pages_: Sequence[PageId], *, died: bool, reason: str = "a process died with it", now: float
) -> None:
    """Pages in flight go back unread: their attempt is not counted, unless a process `died` with them, for `reason`."""
    for chunk in chunks(pages_):
        statement = _PUT_BACK.where(pages.c.id.in_(chunk))
        if not died:
            statement = statement.values(attempts=pages.c.attempts - 1)
        rows = conn.execute(statement, {"died": int(died)}).all()
        if died:
            pages_died(conn, rows, reason, now=now)


def retry_file(
    conn: Connection, file: FileId, reason: str, next_try_at: float, *, died: bool = False, now: float
) -> None:
    """A file can't be opened now, a worker `died` of it perhaps; it may be claimed again from `next_try_at` on.

    Raises:
        IllegalMove: it is final.
    """
    if to_state(conn, file, FileState.RETRYING, now=now, reason=reason, next_try_at=stamp(next_try_at)):
        put_back_pages(conn, [file])
        if died:
            count_death(conn, file)
        happened(conn, event(stamp(now), "retrying", reason, file=file))


def release_files(conn: Connection, files_: Sequence[FileId], *, now: float) -> None:
    """Claimed files go back unopened, their attempt uncounted: an orderly stop."""
    for chunk in chunks(files_):
        conn.execute(
            update(files)
            .where(files.c.id.in_(chunk), text(when.BEING_READ))
            .values(state=FileState.READY, attempts=files.c.attempts - 1)
        )
    put_back_pages(conn, files_)


def _json(values: Sequence[object]) -> str | None:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")) if values else None
