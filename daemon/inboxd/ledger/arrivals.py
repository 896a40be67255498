"""Verbs of the way in: from a sighting to a file that is ready, a duplicate, or not for us."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from inboxd.core.lifecycle import FileState
from inboxd.model import Arrival, FileId, Gone, InboxId, Sighting, Signature, Tracked


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of an arrival: READY, DUPLICATE (of `original`), DONE (unchanged since `original`),
    QUARANTINED (as `original`, the same content) or SKIPPED (an output of ours)."""

    state: FileState
    original: FileId | None = None
    reason: str = ""


def record(conn: Connection, sightings: Sequence[Sighting], *, now: float) -> list[Tracked]:
    raise NotImplementedError


def find_moved(conn: Connection, inbox: InboxId, signature: Signature) -> list[tuple[FileId, bytes]]:
    raise NotImplementedError


def rename(conn: Connection, file: FileId, path: bytes, signature: Signature, *, now: float) -> None:
    """`signature` is that of the file at its new path: a rename changes ctime."""
    raise NotImplementedError


def gone(conn: Connection, gone: Sequence[Gone], *, now: float) -> None:
    raise NotImplementedError


def waiting(conn: Connection, file: FileId, reason: str, *, now: float) -> None:
    raise NotImplementedError


def accept(conn: Connection, arrival: Arrival, *, now: float) -> Accepted:
    raise NotImplementedError


def resettle(conn: Connection, files: Sequence[FileId], reason: str, *, now: float) -> int:
    """Back to settling what is ready, reading or retrying: its spool copy is lost. Pages already read are kept."""
    raise NotImplementedError


def quarantine(conn: Connection, file: FileId, reason: str, *, now: float) -> None:
    raise NotImplementedError


def skip(conn: Connection, file: FileId, reason: str, *, now: float) -> None:
    raise NotImplementedError
