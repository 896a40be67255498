"""The query-only side of the ledger: standard library only, and unable to write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Self

from inboxd.core.lifecycle import FileState
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
from inboxd.model import FileId, InboxId, Reading, Signature


class Reader:
    """A read-only connection. Use one a thread; `interrupt` may be called from any."""

    def __init__(self, path: Path) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None: ...

    def interrupt(self) -> None: ...

    # for the rooms
    def known(self, inbox: InboxId, folder: bytes) -> dict[bytes, Known]:
        """The latest row of each name in one folder of an inbox (`b""` is the inbox itself)."""
        raise NotImplementedError

    def open_folders(self, inbox: InboxId) -> set[bytes]:
        """Folders that hold files not yet final: where a deletion matters."""
        raise NotImplementedError

    def find_moved(self, inbox: InboxId, signature: Signature) -> list[tuple[FileId, bytes]]:
        """As arrivals.find_moved, without troubling the writer."""
        raise NotImplementedError

    def outputs_in(self, folder: bytes) -> set[bytes]:
        """Names in an absolute folder that we wrote."""
        raise NotImplementedError

    def backlog(self) -> int:
        """Files that are ready and not yet opened."""
        raise NotImplementedError

    def spooled(self) -> list[tuple[FileId, str]]:
        """Files that need their spool copy (ready, reading, retrying), with sha256."""
        raise NotImplementedError

    def reading(self, file: FileId) -> Reading:
        """Raises LookupError: unknown, or not all of its pages are final."""
        raise NotImplementedError

    def signature(self, file: FileId) -> Signature:
        """What stat said of the original when it was taken. Raises LookupError: unknown."""
        raise NotImplementedError

    def written_for(self, file: FileId) -> dict[bytes, str]:
        """Absolute path → SHA-256 of every output that we wrote for the path of `file`, in any version of it."""
        raise NotImplementedError

    # for people
    def counts(self) -> Counts:
        raise NotImplementedError

    def paused(self) -> bool:
        raise NotImplementedError

    def inboxes(self) -> list[InboxRow]:
        raise NotImplementedError

    def runs(self, limit: int = 20) -> list[RunRow]:
        raise NotImplementedError

    def files(
        self,
        *,
        state: FileState | None = None,
        contains: str = "",
        all_versions: bool = False,
        limit: int = 50,
    ) -> list[FileRow]:
        """Newest first."""
        raise NotImplementedError

    def file(self, file: FileId) -> FileRow | None:
        raise NotImplementedError

    def find(self, what: str | bytes) -> list[FileRow]:
        """By id, absolute path (bytes, or text as displayed) or the end of a path; latest versions, newest first."""
        raise NotImplementedError

    def history(self, file: FileId) -> list[FileRow]:
        """Every version at the path of `file`, oldest first."""
        raise NotImplementedError

    def pages(self, file: FileId) -> list[PageRow]:
        raise NotImplementedError

    def events(self, file: FileId | None = None, *, limit: int = 100) -> list[EventRow]:
        """The latest `limit`, oldest first."""
        raise NotImplementedError

    def outputs(self, file: FileId) -> list[OutputRow]:
        raise NotImplementedError

    def search(self, words: str, limit: int = 20) -> list[Hit]:
        """Pages that hold every word; "two words" in double quotes are one."""
        raise NotImplementedError

    def query(self, sql: str) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """Column names and a stream of rows. Raises UsageError with SQLite's words."""
        raise NotImplementedError

    def data_version(self) -> int:
        """Changes whenever another connection has committed."""
        raise NotImplementedError

    @property
    def version(self) -> str:
        """Schema version."""
        raise NotImplementedError
