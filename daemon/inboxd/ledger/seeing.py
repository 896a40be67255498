"""Verbs of what is seen in a folder: a path gets its row, a row follows its file to another name, or goes with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, insert, select, text, update

from inboxd.core.lifecycle import FINAL, FileState
from inboxd.core.naming import display
from inboxd.ledger import conditions as when
from inboxd.ledger.conditions import Delivery
from inboxd.ledger.duplicates import promote
from inboxd.ledger.form import split, stamp
from inboxd.ledger.moving import AnyRow, chunks, event, happened, put_back_pages, settle, to_state
from inboxd.ledger.schema import files, inboxes
from inboxd.model import Entry, FileId, Gone, InboxId, Sighting, Signature, Tracked

_REPLACED = "replaced by newer content"
_SIGNATURE = (files.c.size, files.c.mtime_ns, files.c.ctime_ns, files.c.inode)
_CURRENT = select(files.c.id, files.c.name, files.c.state, files.c.reason, *_SIGNATURE).where(text(when.CURRENT))
_OPEN = select(files.c.id).where(text(when.OPEN))
_WAITING_COPIES = select(files.c.id).where(
    text(f"{when.CURRENT} AND state = '{FileState.DUPLICATE}' AND delivery = '{Delivery.NONE}'"),
    text(f"duplicate_of IN (SELECT id FROM files WHERE {when.OPEN})"),  # noqa: S608 - conditions of our own
)
_REFRESH = (
    update(files)
    .where(files.c.id == bindparam("file"))
    .values({column: bindparam(f"new_{column.name}") for column in _SIGNATURE})
)
_LAST_ID = text("SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'files'), 0)")


def record(conn: Connection, sightings: Sequence[Sighting], *, now: float) -> list[Tracked]:
    """Give every sighting its row, and return those that settle.

    An unknown path gets a new row, and so does one whose content changed after it left `settling`: what it was
    before is kept as an earlier version. An entry that is no file gets a row that says so, and is not returned.
    """
    folders: dict[tuple[InboxId, bytes], dict[bytes, Sighting]] = defaultdict(dict)
    for sighting in sightings:
        folder, name = split(sighting.path)
        folders[sighting.inbox, folder][name] = sighting
    tracked: list[Tracked] = []
    fresh: list[Sighting] = []
    changed: list[tuple[FileId, Signature]] = []
    for (inbox, folder), seen in folders.items():
        known = _known(conn, inbox, folder, list(seen))
        for name, sighting in seen.items():
            row = known.get(name)
            if row is None:
                fresh.append(sighting)
                continue
            file, is_file = FileId(row.id), sighting.entry is Entry.FILE
            if sighting.signature == Signature(row.size, row.mtime_ns, row.ctime_ns, row.inode):
                if row.state == FileState.VANISHED and is_file:
                    settle(conn, file, "", now=now)
                    happened(conn, event(stamp(now), "seen", "again", file=file))
                    tracked.append(Tracked(file, sighting))
                elif row.state == FileState.SETTLING and is_file:
                    tracked.append(Tracked(file, sighting))
            elif row.state == FileState.SETTLING and is_file:
                changed.append((file, sighting.signature))
                tracked.append(Tracked(file, sighting))
            elif row.state == FileState.SKIPPED and row.reason == _no_file(sighting.entry):
                changed.append((file, sighting.signature))
            else:
                _supersede(conn, file, _REPLACED, now=now)
                fresh.append(sighting)
    if changed:
        conn.execute(_REFRESH, [{"file": file, **_stored(signature, "new_")} for file, signature in changed])
    return tracked + _insert(conn, fresh, now=now)


def rename(conn: Connection, file: FileId, path: bytes, signature: Signature, *, now: float) -> None:
    """A file that is not final moved to `path` (below its inbox), where it has `signature`: a rename changes ctime.

    One that had vanished settles again. One that is final by now is left alone.
    """
    row = conn.execute(select(files.c.inbox, files.c.path, files.c.state).where(files.c.id == file)).one_or_none()
    if row is None or (row.state in FINAL and row.state != FileState.VANISHED):
        return
    folder, name = split(path)
    for there in _known(conn, row.inbox, folder, [name]).values():
        if there.id != file:
            _supersede(conn, FileId(there.id), _REPLACED, now=now)
    conn.execute(
        update(files)
        .where(files.c.id == file)
        .values(folder=folder, name=name, path=_shown(conn, row.inbox, path), current=1, **_stored(signature))
    )
    happened(conn, event(stamp(now), "renamed", f"from {row.path}", file=file))
    if row.state == FileState.VANISHED:
        settle(conn, file, "", now=now)


def gone(conn: Connection, gone: Sequence[Gone], *, now: float) -> None:
    """Files that disappeared from a folder that can be read, or are not wanted any more: those not final have vanished.

    Seen again, they settle again.
    """
    groups: dict[tuple[InboxId, bytes], dict[bytes, str]] = defaultdict(dict)
    for missing in gone:
        folder, name = split(missing.path)
        groups[missing.inbox, folder][name] = missing.why
    for (inbox, folder), why in groups.items():
        for row in _known(conn, inbox, folder, list(why)).values():
            _vanish(conn, FileId(row.id), why[row.name], now=now)


def unwatched(conn: Connection, configured: Sequence[InboxId], reason: str, *, limit: int = 1000, now: float) -> int:
    """Files that nobody looks for any more, as their inbox is not `configured`: those not final have vanished, for
    `reason`, and so have duplicates that wait for a file which is not final. Seen again, they settle again.

    At most `limit` in one call, so that no other write waits long: call again until it says that there were none.
    """
    elsewhere = files.c.inbox.not_in(configured)
    # Duplicates first: none of them must take the place of a file that goes.
    found = conn.scalars(_WAITING_COPIES.where(elsewhere).limit(limit)).all()
    for file in found:
        settle(conn, FileId(file), reason, now=now)
    found = found or conn.scalars(_OPEN.where(elsewhere).limit(limit)).all()
    for file in found:
        _vanish(conn, FileId(file), reason, now=now)
    return len(found)


def _known(conn: Connection, inbox: InboxId, folder: bytes, names: Sequence[bytes]) -> dict[bytes, AnyRow]:
    """The latest rows of these names in a folder."""
    here = _CURRENT.where(files.c.inbox == inbox, files.c.folder == folder)
    return {row.name: row for chunk in chunks(names) for row in conn.execute(here.where(files.c.name.in_(chunk)))}


def _insert(conn: Connection, sightings: Sequence[Sighting], *, now: float) -> list[Tracked]:
    """New rows, with ids counted out here so that any number of them takes one statement."""
    if not sightings:
        return []
    homes = {row.id: row for row in conn.execute(select(inboxes.c.id, inboxes.c.folder, inboxes.c.priority))}
    at, first = stamp(now), int(conn.execute(_LAST_ID).scalar_one()) + 1
    rows: list[dict[str, object]] = []
    history: list[dict[str, object]] = []
    tracked: list[Tracked] = []
    for file, sighting in enumerate(sightings, first):
        folder, name = split(sighting.path)
        home = homes[sighting.inbox]
        reason = _no_file(sighting.entry)
        rows.append(
            {
                "id": file,
                "inbox": sighting.inbox,
                "folder": folder,
                "name": name,
                "path": display(home.folder.rstrip(b"/") + b"/" + sighting.path),
                "current": 1,
                "state": FileState.SKIPPED if reason else FileState.SETTLING,
                "reason": reason,
                "priority": home.priority,
                "first_seen": at,
                "finished": at if reason else None,
                **_stored(sighting.signature),
            }
        )
        history.append(event(at, "skipped" if reason else "seen", reason, file=file))
        if not reason:
            tracked.append(Tracked(FileId(file), sighting))
    conn.execute(insert(files), rows)
    happened(conn, *history)
    return tracked


def _supersede(conn: Connection, file: FileId, why: str, *, now: float) -> None:
    """Something newer lies at the path of a file: it is the latest no more, and no output of it must be written."""
    _vanish(conn, file, why, now=now)
    conn.execute(update(files).where(files.c.id == file).values(current=0))
    cancelled = {"delivery": Delivery.NONE, "next_delivery_at": None}
    conn.execute(update(files).where(files.c.id == file, text(when.OWED)).values(cancelled))


def _vanish(conn: Connection, file: FileId, why: str, *, now: float) -> None:
    """A file has gone, and if it was not final, has vanished. Its state is looked up: in a batch, the end of one file
    may have begun the life of another."""
    if conn.scalar(select(files.c.state).where(files.c.id == file)) in FINAL:
        return
    to_state(conn, file, FileState.VANISHED, now=now, reason=why, delivery=Delivery.NONE, next_delivery_at=None)
    put_back_pages(conn, [file])
    happened(conn, event(stamp(now), "vanished", why, file=file))
    promote(conn, file, f"its first arrival vanished: {why}", now=now)


def _no_file(entry: Entry) -> str:
    return "" if entry is Entry.FILE else f"a {entry}, not a file"


def _stored(signature: Signature, prefix: str = "") -> dict[str, int]:
    return {
        f"{prefix}size": signature.size,
        f"{prefix}mtime_ns": signature.mtime_ns,
        f"{prefix}ctime_ns": signature.ctime_ns,
        f"{prefix}inode": signature.inode,
    }


def _shown(conn: Connection, inbox: InboxId, path: bytes) -> str:
    home: bytes = conn.execute(select(inboxes.c.folder).where(inboxes.c.id == inbox)).scalar_one()
    return display(home.rstrip(b"/") + b"/" + path)
