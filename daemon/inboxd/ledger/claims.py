"""Verbs of the work: files and pages are claimed, and finished, retried or released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from inboxd.model import BatchId, FileClaim, FileId, PageClaim, PageId, PageReading, RunId


@dataclass(frozen=True, slots=True)
class Strays:
    """How many files and pages an earlier run left claimed."""

    files: int
    pages: int


def claim_files(conn: Connection, limit: int, run: RunId, *, newest: bool = False, now: float) -> list[FileClaim]:
    raise NotImplementedError


def opened(conn: Connection, file: FileId, pages: int, *, now: float) -> None:
    raise NotImplementedError


def claim_pages(conn: Connection, limit: int, run: RunId, *, alone: bool = False, now: float) -> list[PageClaim]:
    raise NotImplementedError


def admit(conn: Connection, run: RunId, engine: str, pages: Sequence[PageId], *, now: float) -> BatchId:
    raise NotImplementedError


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
    now: float,
) -> bool:
    """True when that was the file's last open page. A page that is no longer in flight (its file vanished or was
    requeued meanwhile) is left alone: False."""
    raise NotImplementedError


def retry_page(
    conn: Connection, page: PageId, reason: str, next_try_at: float, *, died: bool = False, now: float
) -> None:
    raise NotImplementedError


def release_pages(conn: Connection, pages: Sequence[PageId], *, died: bool, now: float) -> None:
    raise NotImplementedError


def retry_file(
    conn: Connection, file: FileId, reason: str, next_try_at: float, *, died: bool = False, now: float
) -> None:
    raise NotImplementedError


def release_files(conn: Connection, files: Sequence[FileId], *, now: float) -> None:
    """Give claimed files back unopened, attempt uncounted: an orderly stop."""
    raise NotImplementedError


def release_strays(conn: Connection, run: RunId, *, now: float) -> Strays:
    raise NotImplementedError
