"""Lives of the real daemon that cost little to begin: its packages are loaded once, and each life is forked from there.

inboxd itself is loaded by every life, as in production: nothing of it outlives a kill.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path

_HEAVY = (
    "alembic.command",
    "alembic.config",
    "alembic.script",
    "apscheduler.schedulers.asyncio",
    "click",
    "msgspec",
    "numpy",
    "sqlalchemy.dialects.sqlite",
    "structlog",
    "watchdog.observers.inotify_c",
)
_context = get_context("forkserver")
_context.set_forkserver_preload([*_HEAVY, __name__])


def live(arguments: Sequence[str], log: Path, env: Mapping[str, str], timeout: float = 120) -> int:
    """One life of `inboxd ARGUMENTS`, its words in `log`; its exit code, -9 where it was killed."""
    life = _context.Process(target=_be_inboxd, args=(tuple(arguments), log, dict(env)))
    life.start()
    life.join(timeout)
    if life.exitcode is None:
        life.kill()
        life.join()
        raise AssertionError(f"it did not end within {timeout} s\n{log.read_text()}")
    return life.exitcode


def _be_inboxd(arguments: tuple[str, ...], log: Path, env: dict[str, str]) -> None:
    os.setsid()
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(out, stream)
    os.environ |= env
    from inboxd.cli import main

    sys.exit(main(arguments))
