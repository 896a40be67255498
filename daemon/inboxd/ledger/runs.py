"""Verbs about the daemon itself: its lives, its folders, its memory, and what a person asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from inboxd.model import FileId, InboxId, MemorySample, RunId


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows were forgotten."""

    events: int
    samples: int


def start_run(
    conn: Connection,
    *,
    version: str,
    pid: int,
    boot_id: str,
    engine: str = "",
    model: str = "",
    gpu: str = "",
    now: float,
) -> RunId:
    raise NotImplementedError


def end_run(conn: Connection, run: RunId, exit_code: int, reason: str, *, now: float) -> None:
    """What the run still holds goes back, uncounted."""
    raise NotImplementedError


def inbox(conn: Connection, path: bytes, *, priority: int = 0, watching: str = "", now: float) -> InboxId:
    raise NotImplementedError


def inbox_state(conn: Connection, inbox: InboxId, state: str, reason: str, *, now: float) -> None:
    raise NotImplementedError


def sample(conn: Connection, run: RunId, sample: MemorySample, *, now: float, **extra: float | int | None) -> None:
    raise NotImplementedError


def paused(conn: Connection) -> bool:
    raise NotImplementedError


def pause(conn: Connection, on: bool, *, now: float) -> None:
    raise NotImplementedError


def requeue(conn: Connection, files: Sequence[FileId], *, now: float) -> int:
    raise NotImplementedError


def prune(
    conn: Connection, *, events_before: float | None, samples_before: float | None, limit: int = 20_000, now: float
) -> Pruned:
    """Forget at most `limit` old events and samples a call, so that no other write waits long; call again while it
    returns that many. None keeps for ever."""
    raise NotImplementedError
