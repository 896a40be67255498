"""What the ledger's readers hand out: frozen rows. Times are UTC text as in SQL, `YYYY-MM-DD HH:MM:SS.mmm`."""

from __future__ import annotations

from dataclasses import dataclass

from inboxd.core.lifecycle import FileState
from inboxd.model import FileId, InboxId, PageId, PageState, RunId, Signature


@dataclass(frozen=True, slots=True)
class Known:
    """The latest row of a path."""

    file: FileId
    signature: Signature
    state: FileState


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is of everything, now."""

    files: dict[FileState, int]  # latest version of each path; every state is there
    by_inbox: dict[InboxId, dict[FileState, int]]  # the same for each inbox; states without files are left out
    pages_done: int  # read and final, of every file
    pages_open: int  # waiting or in flight, of files being read
    pages_in_flight: int
    open: int  # files that the daemon still has something to do for, those that can't be delivered aside
    owed: int  # files whose outputs are not on disk yet
    undeliverable: int  # of these: the last try to write them failed
    paused: bool


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row of v_files."""

    id: FileId
    inbox: str
    path: str
    name: str
    state: FileState
    reason: str
    kind: str | None
    size: int
    sha256: str | None
    pages: int | None
    pages_done: int
    attempts: int
    deaths: int
    duplicate_of: str | None  # display path
    delivery: str  # none | owed | delivered
    delivery_reason: str  # why the last try to write the outputs failed
    current: bool  # False: a newer version lies at this path
    first_seen: str
    started: str | None
    finished: str | None
    next_try_at: str | None
    seconds: float | None  # first seen → finished


@dataclass(frozen=True, slots=True)
class PageRow:
    """A row of v_pages, without text."""

    id: PageId
    file: FileId
    number: int
    state: PageState
    reason: str
    attempts: int
    deaths: int
    engine: str | None
    model: str | None
    tokens_in: int | None
    tokens_out: int | None
    confidence: float | None
    seconds: float | None
    chars: int
    finished: str | None
    next_try_at: str | None
    warnings: tuple[str, ...]  # what was noticed while it was drawn


@dataclass(frozen=True, slots=True)
class EventRow:
    """Something that happened."""

    id: int
    at: str
    event: str
    detail: str
    file: FileId | None
    page: int | None  # page number
    run: RunId | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """A life of the daemon."""

    id: RunId
    version: str
    pid: int
    engine: str
    model: str
    gpu: str
    started: str
    ended: str | None
    exit_code: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A watched folder."""

    id: InboxId
    folder: bytes  # absolute
    path: str
    priority: int
    watching: str
    state: str
    reason: str
    since: str


@dataclass(frozen=True, slots=True)
class OutputRow:
    """An output that we wrote."""

    path: bytes  # absolute
    format: str
    sha256: str
    size: int
    written: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that holds every word searched for."""

    file: FileId
    path: str
    page: int
    snippet: str  # one line
    marks: tuple[tuple[int, int], ...]  # where the words stand in `snippet`
