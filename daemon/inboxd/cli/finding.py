"""What `inboxd check` finds: one line for a person, with what to do about it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 5.0


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARN = "warn"  # it works, but not as well as it could, or not for everything
    FAIL = "fail"  # the daemon would not start, or not do its work


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; `says` what is so, and `advice`, where something is wrong, what to do."""

    level: Level
    about: str
    says: str
    advice: str = ""


class NoAnswer(Exception):
    """A folder did not answer in time: a dead share blocks whoever asks, in the kernel."""


def patiently(look: Callable[[], T], seconds: float = PATIENCE_S) -> T:
    """`look()`, in a thread that is left behind when it takes longer than `seconds`.

    Raises:
        NoAnswer: it took longer.
        OSError: as `look`.
    """
    answers: list[T] = []
    troubles: list[OSError] = []

    def ask() -> None:
        try:
            answers.append(look())
        except OSError as error:
            troubles.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    if troubles:
        raise troubles[0]
    if not answers:
        raise NoAnswer(f"no answer within {seconds:g} seconds")
    return answers[0]
