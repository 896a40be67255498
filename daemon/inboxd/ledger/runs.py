"""Verbs about the daemon itself: its lives, its folders, its memory, and what people ask of it from another process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, func, insert, select, text, update

from inboxd.core.lifecycle import FileState, sources
from inboxd.core.naming import display
from inboxd.ledger import conditions as when
from inboxd.ledger.conditions import Delivery
from inboxd.ledger.duplicates import promote
from inboxd.ledger.form import stamp
from inboxd.ledger.moving import chunks, event, happened, put_back_pages
from inboxd.ledger.schema import control, events, files, inboxes, memory_samples, runs
from inboxd.ledger.strays import release_held
from inboxd.ledger.upkeep import ENGINES
from inboxd.model import EngineInfo, FileId, InboxId, MemorySample, RunId


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows were forgotten."""

    events: int
    samples: int
    all: bool  # nothing as old is left


_BEYOND = 2**63 - 1
"""No id is as large."""
PAUSED = "paused"
REQUEUED = "requeued"
"""Names in `control`: the second counts up whenever files were requeued, for a daemon to notice."""

_SET = text(
    """
    INSERT INTO control (name, value, at) VALUES (:name, :value, :at)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, at = excluded.at
    """
)


def start_run(
    conn: Connection,
    *,
    version: str,
    pid: int,
    boot_id: str,
    engine: str = "",
    model: str = "",
    gpu: str = "",
    now: float,
) -> RunId:
    """A life begins. Earlier ones that did not say how they ended are marked so; what ailed their engines is past."""
    at = stamp(now)
    conn.execute(delete(control).where(control.c.name == ENGINES))
    conn.execute(
        update(runs)
        .where(runs.c.ended.is_(None))
        .values(ended=at, reason="killed, or the power failed: it left no word")
    )
    row = conn.execute(
        insert(runs)
        .values(version=version, pid=pid, boot_id=boot_id, engine=engine, model=model, gpu=gpu, started=at)
        .returning(runs.c.id)
    )
    run = RunId(row.scalar_one())
    happened(conn, event(at, "started", f"inboxd {version}", run=run))
    return run


def engine_started(conn: Connection, run: RunId, info: EngineInfo, *, now: float) -> None:
    """The engine of this life is up, and knows what it is."""
    conn.execute(
        update(runs)
        .where(runs.c.id == run)
        .values(engine=info.engine, model=info.model, engine_version=info.version, gpu=info.device)
    )
    happened(conn, event(stamp(now), "engine started", f"{info.engine}: {info.model} on {info.device}", run=run))


def end_run(conn: Connection, run: RunId, exit_code: int, reason: str, *, now: float) -> None:
    """A life ends in order; what it still holds goes back uncounted."""
    release_held(conn, run, now=now)
    at = stamp(now)
    conn.execute(update(runs).where(runs.c.id == run).values(ended=at, exit_code=exit_code, reason=reason))
    happened(conn, event(at, "ended", reason, run=run))


def inbox(conn: Connection, path: bytes, *, priority: int = 0, watching: str = "", now: float) -> InboxId:
    """The id of a watched folder (absolute), which is new, or has this priority and way of watching from now on."""
    row = conn.execute(select(inboxes.c.id, inboxes.c.priority).where(inboxes.c.folder == path)).one_or_none()
    if row is None:
        values = {"folder": path, "path": display(path), "priority": priority, "watching": watching}
        new = conn.execute(
            insert(inboxes).values(state="", reason="", since=stamp(now), **values).returning(inboxes.c.id)
        )
        return InboxId(new.scalar_one())
    conn.execute(update(inboxes).where(inboxes.c.id == row.id).values(priority=priority, watching=watching))
    if row.priority != priority:
        conn.execute(update(files).where(files.c.inbox == row.id, text(when.OPEN)).values(priority=priority))
    return InboxId(row.id)


def inbox_state(conn: Connection, inbox: InboxId, state: str, reason: str, *, now: float) -> None:
    """How a watched folder fares; the history gets a line when that changes."""
    at = stamp(now)
    changed = conn.execute(
        update(inboxes)
        .where(inboxes.c.id == inbox, (inboxes.c.state != state) | (inboxes.c.reason != reason))
        .values(state=state, reason=reason, since=at)
    )
    if changed.rowcount:
        happened(conn, event(at, f"inbox {state}", reason) | {"inbox": inbox})


def sample(
    conn: Connection, run: RunId, sample: MemorySample, /, *, now: float, **extra: float | int | str | None
) -> None:
    """Keep a memory sample, and whatever else was measured at that moment."""
    conn.execute(insert(memory_samples).values(run=run, at=stamp(now), extra=json.dumps(extra), **asdict(sample)))


def paused(conn: Connection) -> bool:
    """Whether a person has paused the work."""
    return conn.scalar(select(control.c.value).where(control.c.name == PAUSED)) == "1"


def pause(conn: Connection, on: bool, *, now: float) -> None:
    """Pause the work, or let it go on; a running daemon notices."""
    if paused(conn) != on:
        conn.execute(_SET, {"name": PAUSED, "value": str(int(on)), "at": stamp(now)})
        happened(conn, event(stamp(now), "paused" if on else "resumed"))


def requeue(conn: Connection, files_: Sequence[FileId], *, now: float) -> int:
    """Have files taken up again as if they had just been dropped; says how many were not settling already.

    Only the latest version at a path can be. Its pages are read again, even if nobody could read them before; what was
    read is kept until the original has settled again.
    """
    count = 0
    for chunk in chunks(files_):
        count += _requeue(conn, chunk, now=now)
    if count:
        last = conn.scalar(select(control.c.value).where(control.c.name == REQUEUED))
        conn.execute(_SET, {"name": REQUEUED, "value": str(int(last or 0) + 1), "at": stamp(now)})
    return count


def _requeue(conn: Connection, wanted: Sequence[FileId], *, now: float) -> int:
    at = stamp(now)
    chosen = conn.scalars(
        select(files.c.id).where(
            files.c.id.in_(wanted), text(when.CURRENT), files.c.state.in_(sorted(sources(FileState.SETTLING)))
        )
    ).all()
    put_back_pages(conn, chosen)
    conn.execute(
        update(files)
        .where(files.c.id.in_(chosen))
        .values(
            state=FileState.SETTLING,
            reason="",
            requeued=1,
            attempts=0,
            deaths=0,
            run=None,
            duplicate_of=None,
            delivery=Delivery.NONE,
            delivery_reason="",
            next_delivery_at=None,
            next_try_at=None,
            priority=select(inboxes.c.priority).where(inboxes.c.id == files.c.inbox).scalar_subquery(),
            settled=None,
            started=None,
            finished=None,
        )
    )
    happened(conn, *(event(at, "requeued", file=file) for file in chosen))
    for file in chosen:
        promote(conn, FileId(file), "its first arrival was requeued", now=now)
    return len(chosen)


def prune(
    conn: Connection, *, events_before: float | None, samples_before: float | None, limit: int = 20_000, now: float
) -> Pruned:
    """Forget events and samples from before a time (UTC seconds); None keeps them for ever.

    At most `limit` of each go in one call, so that no other write waits long: call again until it says `all`.
    """
    gone = {events: 0, memory_samples: 0}
    for table, before in ((events, events_before), (memory_samples, samples_before)):
        if before is not None:
            # Up to the first that is young: they are in order, and those behind it need not be read.
            young = select(table.c.id).where(table.c.at >= stamp(before)).order_by(table.c.id).limit(1)
            is_old = table.c.id < func.coalesce(young.scalar_subquery(), _BEYOND)
            oldest = select(table.c.id).where(is_old).order_by(table.c.id).limit(limit)
            gone[table] = conn.execute(delete(table).where(table.c.id.in_(oldest))).rowcount
    return Pruned(gone[events], gone[memory_samples], max(gone.values()) < limit)
