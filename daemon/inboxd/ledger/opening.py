"""Opens the ledger: pragmas, migration, refusals; then the way in for verbs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import Connection

P = ParamSpec("P")
T = TypeVar("T")


class Ledger:
    """The writing side of a ledger: one connection on one thread, used through verbs."""

    commits: int  # transactions committed so far
    verbs: int  # verbs carried out so far

    @classmethod
    def open(cls, path: Path, *, create: bool = True) -> Self:
        """Open, and migrate, the ledger at `path`."""
        raise NotImplementedError

    async def write(self, verb: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `verb(connection, *args, **kwargs)` on the writer thread; returns once it is committed."""
        raise NotImplementedError

    def write_now(self, verb: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As `write`, for a caller without an event loop."""
        raise NotImplementedError

    def close(self) -> None:
        """Carry out what is queued, then close. Idempotent."""
        raise NotImplementedError
