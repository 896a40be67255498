"""Verbs of the way out: which outputs are on disk, which are still owed, and what we may overwrite."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from inboxd.model import FileId, Written


def delivered(conn: Connection, file: FileId, outputs: Sequence[Written], *, now: float) -> bool:
    """True when the file is closed by it; False when it vanished or was requeued meanwhile (the outputs are
    recorded as ours all the same)."""
    raise NotImplementedError


def undelivered(conn: Connection, file: FileId, reason: str, next_try_at: float, *, now: float) -> None:
    raise NotImplementedError


def owe(conn: Connection, file: FileId, *, now: float) -> None:
    """The outputs of a done or duplicate file are to be written again: they are no longer on disk."""
    raise NotImplementedError


def owed(conn: Connection, limit: int, *, now: float) -> list[FileId]:
    raise NotImplementedError


def may_overwrite(conn: Connection, path: bytes) -> str | None:
    raise NotImplementedError


def is_output(conn: Connection, path: bytes) -> bool:
    raise NotImplementedError
