"""The query-only side of the ledger, for rooms and for people: standard library only, and unable to write."""

from __future__ import annotations

import json

from inboxd.core.lifecycle import FileState
from inboxd.ledger import conditions as when
from inboxd.ledger.asking import Asking
from inboxd.ledger.form import join
from inboxd.ledger.rows import (
    Counts,
    EventRow,
    FileRow,
    Hit,
    InboxRow,
    Known,
    OutputRow,
    PageRow,
    RunRow,
)
from inboxd.model import Box, FileId, InboxId, Kind, PageReading, PageState, Reading, Signature

__all__ = [
    "Counts",
    "EventRow",
    "FileRow",
    "Hit",
    "InboxRow",
    "Known",
    "OutputRow",
    "PageRow",
    "Reader",
    "RunRow",
]


class Reader(Asking):
    """A read-only connection, with what the rooms look up besides. Use it from one thread at a time."""

    def known(self, inbox: InboxId, folder: bytes) -> dict[bytes, Known]:
        """The latest row of each name in one folder of an inbox (`b""` is the inbox itself)."""
        rows = self._connection.execute(
            """
            SELECT name, id, size, mtime_ns, ctime_ns, inode, state FROM files
            WHERE inbox = ? AND folder = ? AND current = 1
            """,
            (inbox, folder),
        )
        return {row[0]: Known(row[1], Signature(*row[2:6]), FileState(row[6])) for row in rows}

    def open_folders(self, inbox: InboxId) -> set[bytes]:
        """The folders of an inbox that hold files not yet final: where a deletion matters."""
        rows = self._all(
            """
            SELECT DISTINCT folder FROM files
            WHERE inbox = ? AND current = 1 AND state IN ('settling', 'ready', 'reading', 'retrying')
            """,
            (inbox,),
        )
        return {row[0] for row in rows}

    def find_moved(self, inbox: InboxId, signature: Signature) -> list[tuple[FileId, bytes]]:
        """Files of this inbox, not final or vanished, that have this inode, size and time of change; with their paths.

        Whoever asks must see whether the old path is empty now: a hard link has the same signature.
        """
        rows = self._all(
            """
            SELECT id, folder, name FROM files
            WHERE inode = ? AND size = ? AND mtime_ns = ? AND inbox = ? AND current = 1
                AND state IN ('settling', 'ready', 'reading', 'retrying', 'vanished')
            """,
            (signature.inode, signature.size, signature.mtime_ns, inbox),
        )
        return [(row[0], join(row[1], row[2])) for row in rows]

    def outputs_in(self, folder: bytes) -> set[bytes]:
        """The names in an absolute folder that we wrote."""
        rows = self._all("SELECT name FROM outputs WHERE folder = ?", (folder.rstrip(b"/") or b"/",))
        return {row[0] for row in rows}

    def written_for(self, file: FileId) -> dict[bytes, str]:
        """What we wrote for any version at the path of `file`: absolute path → sha256."""
        rows = self._all(
            """
            SELECT o.folder, o.name, o.sha256
            FROM files t
            JOIN (SELECT id, inbox, folder, name FROM files WHERE current = 1
                UNION ALL SELECT id, inbox, folder, name FROM files WHERE current = 0) f
                ON f.inbox = t.inbox AND f.folder = t.folder AND f.name = t.name
            JOIN outputs o ON o.file = f.id
            WHERE t.id = ?
            """,
            (file,),
        )
        return {join(folder, name): sha256 for folder, name, sha256 in rows}

    def signature(self, file: FileId) -> Signature:
        """What stat said of a file's content when it was last looked at.

        Raises:
            LookupError: there is no such file.
        """
        rows = self._all("SELECT size, mtime_ns, ctime_ns, inode FROM files WHERE id = ?", (file,))
        if not rows:
            raise LookupError(f"there is no file {file}")
        return Signature(*rows[0])

    def spooled(self) -> list[tuple[FileId, str]]:
        """The files that need their spool copy, and its sha256."""
        query = f"SELECT id, sha256 FROM files WHERE current = 1 AND {when.NEEDS_COPY}"  # noqa: S608 - of our own
        return [(row[0], row[1]) for row in self._all(query)]

    def reading(self, file: FileId) -> Reading:
        """A file with all of its pages; a duplicate has those of its original.

        Raises:
            LookupError: there is no such file, or not all of its pages are final.
        """
        with self._moment():
            rows = self._all(
                "SELECT id, inbox, folder, name, kind, sha256, size, state, duplicate_of FROM files WHERE id = ?",
                (file,),
            )
            if not rows:
                raise LookupError(f"there is no file {file}")
            found = rows[0]
            source, shown = (file, "") if found[7] != FileState.DUPLICATE else self._source(found[8])
            (count,) = self._one("SELECT max(pages) FROM files WHERE id = ?", (source,))
            pages = self._all(
                """
                SELECT number, state, reason, text, width, height, engine, model, attempts, seconds, confidence, finish,
                    tokens_in, tokens_out, turned, boxes, warnings
                FROM pages WHERE file = ? AND finished IS NOT NULL ORDER BY number
                """,
                (source,),
            )
        if not count or count != len(pages):
            raise LookupError(f"not all pages of file {file} are read")
        return Reading(
            file=file,
            inbox=found[1],
            path=join(found[2], found[3]),
            kind=Kind(found[4]),
            sha256=found[5],
            size=found[6],
            pages=tuple(_page(*row) for row in pages),
            duplicate_of=shown,
        )

    def _source(self, original: FileId) -> tuple[FileId, str]:
        """The file that a duplicate's pages belong to, and its path: originals can turn out to be duplicates."""
        seen: set[FileId] = set()
        while original not in seen:
            seen.add(original)
            (state, path, further) = self._one("SELECT state, path, duplicate_of FROM files WHERE id = ?", (original,))
            if state != FileState.DUPLICATE:
                return original, str(path)
            original = further
        raise LookupError(f"the duplicates {sorted(seen)} point at each other")


def _page(
    number: int,
    state: str,
    reason: str,
    text: str,
    width: int | None,
    height: int | None,
    engine: str | None,
    model: str | None,
    attempts: int,
    seconds: float | None,
    confidence: float | None,
    finish: str | None,
    tokens_in: int | None,
    tokens_out: int | None,
    turned: int | None,
    boxes: str | None,
    warnings: str | None,
) -> PageReading:
    return PageReading(
        number=number,
        state=PageState(state),
        reason=reason,
        text=text,
        width=width or 0,
        height=height or 0,
        engine=engine or "",
        model=model or "",
        attempts=attempts,
        seconds=seconds or 0.0,
        confidence=confidence,
        finish=finish,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        turned=turned or 0,
        boxes=tuple(Box(*line) for line in json.loads(boxes or "[]")),
        warnings=tuple(json.loads(warnings or "[]")),
    )
