"""Questions of the command line that no room asks: how things stand, what failed, what is old."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inboxd.core.lifecycle import FileState
from inboxd.ledger.form import join, stamp
from inboxd.ledger.reading import Reader
from inboxd.ledger.rows import Counts, FileRow, InboxRow, RunRow
from inboxd.model import FileId

PACE_S = 60.0
"""Seconds back over which pages a second are told."""
_LISTED = 10


@dataclass(frozen=True, slots=True)
class Owed:
    """A file that is read and whose outputs are not on disk yet."""

    path: str
    reason: str  # why the last try to write them failed


@dataclass(frozen=True, slots=True)
class Glance:
    """The work at one moment; the lists hold a few of each, for a person to see what is going on."""

    counts: Counts
    run: RunRow | None  # the latest life of the daemon
    engines: str  # how many of several engines read, and why the others do not; "" while all do
    inboxes: tuple[tuple[InboxRow, dict[FileState, int]], ...]  # each with its files by state
    reading: tuple[FileRow, ...]
    waiting: tuple[FileRow, ...]  # settling or retrying
    owed: tuple[Owed, ...]
    pages_per_second: float  # over the last PACE_S


@dataclass(frozen=True, slots=True)
class Old:
    """How many rows lie before a date."""

    events: int
    samples: int


def glance(reader: Reader, now: float) -> Glance:
    """Look once; `now` in UTC seconds since the epoch."""
    counts = reader.counts()
    ((finished,),) = _rows(reader, "SELECT count(*) FROM pages WHERE finished > ?", stamp(now - PACE_S))
    owed = _rows(
        reader,
        "SELECT path, delivery_reason FROM files WHERE delivery = 'owed' ORDER BY next_delivery_at, id LIMIT ?",
        _LISTED,
    )
    return Glance(
        counts=counts,
        run=next(iter(reader.runs(1)), None),
        engines=reader.control("engines") or "",
        inboxes=tuple((row, counts.by_inbox.get(row.id, {})) for row in reader.inboxes()),
        reading=tuple(reader.files(state=FileState.READING, limit=_LISTED)),
        waiting=tuple(
            row
            for state in (FileState.RETRYING, FileState.SETTLING)
            for row in reader.files(state=state, limit=_LISTED)
        ),
        owed=tuple(Owed(path, reason) for path, reason in owed),
        pages_per_second=finished / PACE_S,
    )


def failed(reader: Reader) -> list[FileId]:
    """The files that are quarantined, or came out with a page that could not be read."""
    rows = _rows(reader, "SELECT DISTINCT file FROM v_failures WHERE state IN ('quarantined', 'failed') ORDER BY file")
    return [FileId(file) for (file,) in rows]


def archived(reader: Reader, files: Sequence[FileId]) -> dict[FileId, tuple[bytes, str]]:
    """Those of `files` whose originals were archived: where each was, and where it is now, as a person reads it."""
    rows = _rows(
        reader,
        """
        SELECT f.id, i.folder, f.folder, f.name, max(e.id), e.detail
        FROM events e JOIN files f ON f.id = e.file JOIN inboxes i ON i.id = f.inbox
        WHERE e.event = 'archived' AND f.id IN (SELECT value FROM json_each(?)) GROUP BY f.id
        """,
        json.dumps(files),
    )
    return {FileId(file): (join(inbox, join(folder, name)), to) for file, inbox, folder, name, _, to in rows}


def old(reader: Reader, *, events_before: float | None, samples_before: float | None) -> Old:
    """What runs.prune would forget; None is never."""
    events = _count(reader, "SELECT count(*) FROM events WHERE at < ?", events_before)
    samples = _count(reader, "SELECT count(*) FROM memory_samples WHERE at < ?", samples_before)
    return Old(events, samples)


def _count(reader: Reader, sql: str, before: float | None) -> int:
    return 0 if before is None else int(next(_rows(reader, sql, stamp(before)))[0])


def _rows(reader: Reader, sql: str, *parameters: object) -> Any:  # what a query yields is known to who wrote it
    return reader.query(sql, parameters)[1]
