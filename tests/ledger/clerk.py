"""A clerk who drives a ledger as the rooms would: each step one verb, one second after the last."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, text

from inboxd.core.lifecycle import FileState
from inboxd.ledger import arrivals, claims, deliveries, runs
from inboxd.ledger.arrivals import Accepted
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.model import (
    Arrival,
    Entry,
    FileClaim,
    FileId,
    Gone,
    InboxId,
    Kind,
    PageClaim,
    PageReading,
    PageState,
    RunId,
    Sighting,
    Signature,
    Written,
)

P = ParamSpec("P")
T = TypeVar("T")

INBOX = b"/srv/scans"
BEGIN = 1_767_225_600.0  # 2026-01-01 00:00:00 UTC


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


class Clerk:
    """Drives the verbs as the rooms would; `content` stands for the bytes of a file."""

    def __init__(self, ledger: Ledger, inbox: bytes = INBOX) -> None:
        self.ledger = ledger
        self.now = BEGIN
        self._inodes = 0
        self.inbox: InboxId = self.do(runs.inbox, inbox)
        self.run: RunId = self.start_run()

    def do(self, verb: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.now += 1
        kwargs.setdefault("now", self.now)
        return self.ledger.write_now(verb, *args, **kwargs)

    def start_run(self) -> RunId:
        self.run = self.do(runs.start_run, version="0", pid=1, boot_id="boot")
        return self.run

    def signature(self, content: str = "x") -> Signature:
        self._inodes += 1
        return Signature(len(content), 1000 + self._inodes, 2000 + self._inodes, self._inodes)

    def sighting(self, path: bytes, content: str = "x", entry: Entry = Entry.FILE) -> Sighting:
        return Sighting(self.inbox, path, entry, self.signature(content))

    def see(self, path: bytes = b"a.pdf", content: str = "x") -> FileId:
        (tracked,) = self.do(arrivals.record, [self.sighting(path, content)])
        return tracked.file

    def accept(self, file: FileId, content: str = "x", kind: Kind = Kind.PDF) -> Accepted:
        arrival = Arrival(file, self.signature(content), kind, digest(content), Path("spool"))
        return self.do(arrivals.accept, arrival)

    def drop(self, path: bytes = b"a.pdf", content: str | None = None) -> FileId:
        """Seen and taken in."""
        content = content if content is not None else path.decode("utf-8", "replace")
        file = self.see(path, content)
        self.accept(file, content)
        return file

    def claim(self, limit: int = 1, **how: Any) -> list[FileClaim]:
        return self.do(claims.claim_files, limit, self.run, **how)

    def open(self, path: bytes = b"a.pdf", count: int = 1, content: str | None = None) -> FileId:
        """Dropped, claimed and opened."""
        file = self.drop(path, content)
        (claim,) = self.claim()
        assert claim.file == file
        self.do(claims.opened, file, count)
        return file

    def claim_pages(self, limit: int = 100, *, alone: bool = False) -> list[PageClaim]:
        return self.do(claims.claim_pages, limit, self.run, alone=alone)

    def finish(self, page: PageClaim, text: str = "text", state: PageState = PageState.OK, **more: Any) -> bool:
        return self.do(claims.finish_page, page.page, page_reading(page.number, text, state), **more)

    def read(self, path: bytes = b"a.pdf", count: int = 1, content: str | None = None, text: str = "text") -> FileId:
        """Dropped, and every page read; the outputs are owed."""
        file = self.open(path, count, content)
        claimed = self.claim_pages(1000)
        for page in claimed:
            if page.file == file:
                self.finish(page, text)
        if others := [page.page for page in claimed if page.file != file]:
            self.do(claims.release_pages, others, died=False)
        return file

    def finished(
        self, path: bytes = b"a.pdf", count: int = 1, content: str | None = None, text: str = "text"
    ) -> FileId:
        """Dropped, read and delivered."""
        file = self.read(path, count, content, text)
        assert self.deliver(file, path)
        return file

    def deliver(self, file: FileId, path: bytes) -> bool:
        return self.do(deliveries.delivered, file, [written(path)])

    def owed(self, limit: int = 100) -> list[FileId]:
        return [due.file for due in self.do(deliveries.owed, limit)]

    def delete(self, path: bytes) -> None:
        self.do(arrivals.gone, [Gone(self.inbox, path)])

    def reader(self) -> Reader:
        return Reader(self.ledger.path)

    def state(self, file: FileId) -> FileState:
        with self.reader() as reader:
            row = reader.file(file)
        assert row is not None
        return row.state

    def history(self, file: FileId) -> list[str]:
        with self.reader() as reader:
            return [row.event for row in reader.events(file)]

    def sql(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self.reader() as reader:
            return list(reader.query(query, parameters)[1])

    def spoil(self, statement: str, **parameters: object) -> None:
        """Change the ledger behind the back of its verbs: as an older inboxd may have left it."""
        self.ledger.write_now(lambda conn: conn.execute(text(statement), parameters))


def page_reading(number: int = 1, text: str = "text", state: PageState = PageState.OK) -> PageReading:
    return PageReading(
        number=number,
        state=state,
        reason="" if state in (PageState.OK, PageState.BLANK) else "it looks odd",
        text=text,
        width=1000,
        height=1500,
        engine="null",
        model="none",
        attempts=1,
        seconds=0.5,
        tokens_in=10,
        tokens_out=20,
    )


def written(path: bytes, content: str = "output") -> Written:
    return Written(INBOX + b"/" + path + b".md", "md", digest(content + repr(path)), len(content))
