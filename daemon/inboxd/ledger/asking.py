"""What people ask of the ledger: how far it is, what became of a file and why, and which pages hold a word."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

from inboxd.core.lifecycle import FileState
from inboxd.core.naming import display
from inboxd.ledger.conditions import OPEN_STATES
from inboxd.ledger.form import join, split
from inboxd.ledger.query_only import QueryOnly
from inboxd.ledger.rows import Counts, EventRow, FileRow, Hit, InboxRow, OutputRow, PageRow, RunRow
from inboxd.ledger.searching import can_be_text, likes_of, match_of, snippet_of, words_of
from inboxd.model import FileId, InboxId, PageState

_FILES = """
    SELECT id, inbox, path, name, state, reason, kind, size, sha256, pages, pages_done, attempts, deaths,
        duplicate_of, delivery, delivery_reason, current, first_seen, started, finished, next_try_at, seconds
    FROM v_files
"""
_MANY = 1000
"""Files that the end of a path may stand for, at most."""
_ID_DIGITS = 18
"""Digits of an id that SQLite can count to; longer numbers can only be names."""


class Asking(QueryOnly):
    """The questions behind the command line; every answer is a list of frozen rows."""

    def counts(self) -> Counts:
        """How much there is of everything, at one moment."""
        with self._moment():
            by_state = self._all(
                "SELECT inbox, state, count(*), sum(pages) FROM files WHERE current = 1 GROUP BY inbox, state"
            )
            (pending,) = self._one(
                """
                SELECT count(*) FROM files f CROSS JOIN pages p ON p.file = f.id
                WHERE f.state = 'reading' AND f.delivery = 'none' AND p.state = 'pending'
                """
            )
            (in_flight,) = self._one("SELECT count(*) FROM pages WHERE state = 'in_flight'")
            owed, tried, tried_reading, untried_ended = self._one(
                """
                SELECT count(*), coalesce(sum(delivery_reason <> ''), 0),
                    coalesce(sum(delivery_reason <> '' AND state = 'reading'), 0),
                    coalesce(sum(delivery_reason = '' AND state <> 'reading'), 0)
                FROM files WHERE delivery = 'owed'
                """
            )
            paused = self.paused()
        files = dict.fromkeys(FileState, 0)
        by_inbox: dict[InboxId, dict[FileState, int]] = {}
        pages_done = -pending - in_flight
        for inbox, state, count, pages in by_state:
            files[FileState(state)] += count
            by_inbox.setdefault(inbox, {})[FileState(state)] = count
            if state in (FileState.DONE, FileState.READING):
                pages_done += pages or 0
        return Counts(
            files=files,
            by_inbox=by_inbox,
            pages_done=max(0, pages_done),
            pages_open=pending + in_flight,
            pages_in_flight=in_flight,
            open=sum(files[state] for state in OPEN_STATES) - tried_reading + untried_ended,
            owed=owed,
            undeliverable=tried,
            paused=paused,
        )

    def control(self, name: str) -> str | None:
        """What was asked of the daemon from another process, or remembered, under this name."""
        rows = self._all("SELECT value FROM control WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def paused(self) -> bool:
        """Whether a person has paused the work."""
        return self.control("paused") == "1"

    def inboxes(self) -> list[InboxRow]:
        """Every folder that was ever watched."""
        rows = self._all("SELECT id, folder, path, priority, watching, state, reason, since FROM inboxes ORDER BY id")
        return [InboxRow(*row) for row in rows]

    def runs(self, limit: int = 20) -> list[RunRow]:
        """The latest lives of the daemon, newest first."""
        rows = self._all(
            """
            SELECT id, version, pid, engine, model, gpu, started, ended, exit_code, reason FROM runs
            ORDER BY id DESC LIMIT ?
            """,
            (limit,),
        )
        return [RunRow(*row) for row in rows]

    def files(
        self,
        *,
        state: FileState | None = None,
        inbox: str | None = None,
        all_versions: bool = False,
        limit: int = 50,
    ) -> list[FileRow]:
        """Files, newest first: in one state, of one inbox (its path as shown), at most `limit`; -1 is all."""
        # Only conditions that are asked for: SQLite chooses an index by what the statement says.
        wanted = {"state": state, "inbox": inbox, "current": None if all_versions else 1}
        conditions = [f"{column} = :{column}" for column, value in wanted.items() if value is not None]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return self._files(f"{where} ORDER BY id DESC LIMIT :limit", {**wanted, "limit": limit})

    def file(self, file: FileId) -> FileRow | None:
        """One file."""
        return next(iter(self._files(" WHERE id = :file", {"file": file})), None)

    def find(self, what: str | bytes) -> list[FileRow]:
        """The latest files that somebody may mean, newest first: by id, by absolute path, or by the end of a path.

        A path is its bytes, or text as it is shown; an id finds earlier versions too.
        """
        if isinstance(what, bytes):
            return self._at(what)
        if what.isdecimal() and len(what) <= _ID_DIGITS and (file := self.file(FileId(int(what)))) is not None:
            return [file]
        shown = display(os.fsencode(what))
        for candidate in filter(can_be_text, dict.fromkeys((shown, what))):
            end = candidate if candidate.startswith("/") else "/" + candidate
            found = self._files(
                " WHERE current = 1 AND substr(path, -length(:end)) = :end ORDER BY id DESC LIMIT :many",
                {"end": end, "many": _MANY},
            )
            exact = [row for row in found if row.path == candidate]
            if found:
                return exact or found
        return []

    def history(self, file: FileId) -> list[FileRow]:
        """Every version at the path of `file`, oldest first."""
        rows = self._all(
            """
            SELECT f.id FROM files t
            JOIN files f ON f.inbox = t.inbox AND f.folder = t.folder AND f.name = t.name AND f.current = 0
            WHERE t.id = :file
            UNION ALL
            SELECT f.id FROM files t
            JOIN files f ON f.inbox = t.inbox AND f.folder = t.folder AND f.name = t.name AND f.current = 1
            WHERE t.id = :file
            """,
            {"file": file},
        )
        return [version for (row,) in sorted(rows) if (version := self.file(row)) is not None]

    def pages(self, file: FileId) -> list[PageRow]:
        """The pages of a file, in order, without their text."""
        rows = self._all(
            """
            SELECT id, file, page, state, reason, attempts, deaths, engine, model, tokens_in, tokens_out, confidence,
                seconds, chars, finished, next_try_at, warnings
            FROM v_pages WHERE file = ? ORDER BY page
            """,
            (file,),
        )
        return [
            replace(PageRow(*row), state=PageState(row[3]), warnings=tuple(json.loads(row[-1] or "[]"))) for row in rows
        ]

    def events(self, file: FileId | None = None, *, limit: int = 100) -> list[EventRow]:
        """The latest that happened, to one file or at all, oldest first."""
        where = "" if file is None else " WHERE file = :file"
        rows = self._all(
            f"SELECT id, at, event, detail, file, page, run FROM events{where} ORDER BY id DESC LIMIT :limit",  # noqa: S608
            {"file": file, "limit": limit},
        )
        return [EventRow(*row) for row in reversed(rows)]

    def outputs(self, file: FileId) -> list[OutputRow]:
        """What we wrote for a file."""
        rows = self._all("SELECT folder, name, format, sha256, size, written FROM outputs WHERE file = ?", (file,))
        return [OutputRow(join(row[0], row[1]), *row[2:]) for row in sorted(rows)]

    def search(self, words: str, limit: int = 20) -> list[Hit]:
        """Pages that hold every one of the words, newest first; "several in double quotes" are one.

        Parts of words are found, and case does not matter. Pages of earlier versions are left out.
        """
        wanted = words_of(words)
        if not wanted or not can_be_text(words):
            return []
        match, likes = match_of(wanted), likes_of(wanted)
        sql = "SELECT f.id, f.path, p.number, p.text FROM "
        sql += "pages_fts t CROSS JOIN pages p ON p.id = t.rowid " if match else "pages p "
        sql += "CROSS JOIN files f ON f.id = p.file WHERE f.current = 1"
        if match:
            sql += " AND t.text MATCH ?"
        sql += r" AND (p.text LIKE ? ESCAPE '\' OR p.text LIKE ? ESCAPE '\' OR p.text LIKE ? ESCAPE '\')" * len(likes)
        sql += " ORDER BY t.rowid DESC LIMIT ?" if match else " ORDER BY p.id DESC LIMIT ?"
        patterns = [pattern for three in likes for pattern in three]
        rows = self._all(sql, [*([match] if match else []), *patterns, limit])
        return [Hit(file, path, number, *snippet_of(text, wanted)) for file, path, number, text in rows]

    def _at(self, path: bytes) -> list[FileRow]:
        """The latest file at an absolute path, in whichever inbox holds it."""
        found: list[FileRow] = []
        for inbox in self.inboxes():
            home = inbox.folder.rstrip(b"/") + b"/"
            if path.startswith(home):
                folder, name = split(path[len(home) :])
                rows = self._all(
                    "SELECT id FROM files WHERE inbox = ? AND folder = ? AND name = ? AND current = 1",
                    (inbox.id, folder, name),
                )
                found += self._files(" WHERE id = :file", {"file": rows[0][0]}) if rows else []
        return found

    def _files(self, rest: str, parameters: dict[str, Any]) -> list[FileRow]:
        rows = self._all(_FILES + rest, parameters)
        return [replace(FileRow(*row), state=FileState(row[4]), current=bool(row[16])) for row in rows]
