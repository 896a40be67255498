"""`inboxd status`: what is going on, at a glance or live."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inboxd import config as configuration
from inboxd.cli import given
from inboxd.cli.printing import print_json, say, shown
from inboxd.cli.when import local
from inboxd.core.lifecycle import FINAL, FileState
from inboxd.core.showing import one_line

if TYPE_CHECKING:
    from inboxd.ledger.glance import Glance
    from inboxd.ledger.lock import Owner
    from inboxd.ledger.rows import FileRow

_LISTED = 5


@click.command()
@given.config_option
@click.option("--once", is_flag=True, help="Print once, also on a terminal.")
@given.json_option
def status(config: Path | None, once: bool, as_json: bool) -> None:
    """Tell what is going on.

    On a terminal it follows what changes until Ctrl-C.
    """
    settings = given.settings(config)
    from inboxd.ledger.glance import glance
    from inboxd.ledger.lock import owner

    with given.reader(settings) as reader:

        def look() -> tuple[Glance, Owner | None]:
            return glance(reader, time.time()), owner(settings.ledger_path)

        if not (once or as_json) and sys.stdout.isatty():
            _follow(settings, look)
            return
        seen, daemon = look()
    if as_json:
        print_json(record(seen, daemon))
        return
    for line in lines(settings, seen, daemon):
        say(line)
    for row in seen.reading:
        say(f"Reading {row.path}: {row.pages_done} of {row.pages or '?'} pages")


def _follow(settings: configuration.Settings, look: Callable[[], tuple[Glance, Owner | None]]) -> None:
    from inboxd.cli.bars import follow

    def view() -> tuple[Iterable[str], Sequence[FileRow]]:
        seen, daemon = look()
        return lines(settings, seen, daemon), seen.reading

    with suppress(KeyboardInterrupt):
        follow(view)


def record(seen: Glance, daemon: Owner | None) -> dict[str, Any]:
    """The answer for scripts."""
    counts = seen.counts
    return {
        "daemon": asdict(daemon) if daemon is not None else None,
        "paused": counts.paused,
        "run": asdict(seen.run) if seen.run is not None else None,
        "engines_missing": seen.engines if daemon is not None else "",
        "inboxes": [
            {"path": row.path, "watching": row.watching, "state": row.state, "reason": row.reason, "files": files}
            for row, files in seen.inboxes
        ],
        "files": counts.files,
        "pages": {
            "done": counts.pages_done,
            "open": counts.pages_open,
            "in_flight": counts.pages_in_flight,
            "per_second": round(seen.pages_per_second, 3),
        },
        "reading": [{"path": row.path, "pages": row.pages, "pages_done": row.pages_done} for row in seen.reading],
        "waiting": [{"path": row.path, "state": row.state, "reason": row.reason} for row in seen.waiting],
        "owed": {"count": counts.owed, "first": [asdict(owed) for owed in seen.owed]},
    }


def lines(settings: configuration.Settings, seen: Glance, daemon: Owner | None) -> Iterator[str]:
    """The answer for people, safe line by safe line."""
    counts = seen.counts
    if daemon is not None:
        engine = f", engine {seen.run.engine} {seen.run.model}".rstrip() if seen.run is not None else ""
        yield one_line(f"inboxd runs (pid {daemon.pid}, since {local(daemon.since)}){engine}")
        if seen.engines:
            yield one_line(f"  {seen.engines}")
    else:
        yield "No daemon runs: nothing is taken up until it is started (inboxd run)."
        if seen.run is not None and seen.run.ended:
            yield one_line(f"  The last one ended {local(seen.run.ended)}: {seen.run.reason}")
    if counts.paused:
        yield "Paused: nothing is taken up until inboxd resume."
    yield ""
    configured = {shown(os.path.normpath(inbox.path)) for inbox in settings.inbox}
    for row, files in seen.inboxes:
        if row.path in configured:
            yield f"{row.path}: {row.watching or row.state or 'not looked at yet'}"
            if row.reason:
                yield f"  {row.state} since {local(row.since)}: {one_line(row.reason)}"
            yield f"  {_tally(files) or 'no files yet'}"
    yield ""
    yield (
        f"Pages: {counts.pages_open} to read, {counts.pages_in_flight} in flight, {counts.pages_done} read; "
        f"{seen.pages_per_second:.2g} a second over the last minute"
    )
    if counts.owed:
        yield f"Outputs still to be written: {counts.owed} file{'s' if counts.owed > 1 else ''}"
        yield from (f"  {owed.path}: {one_line(owed.reason)}" for owed in seen.owed[:_LISTED])
    waiting = [row for row in seen.waiting if row.reason]
    if waiting:
        yield "Waiting:"
        yield from (f"  {row.path}: {one_line(row.reason)}" for row in waiting[:_LISTED])
    if counts.files.get(FileState.QUARANTINED):
        yield f"{counts.files[FileState.QUARANTINED]} quarantined: inboxd files --state quarantined says why"


def _tally(files: dict[FileState, int]) -> str:
    order = sorted(FileState, key=lambda state: (state in FINAL, list(FileState).index(state)))
    return ", ".join(f"{files[state]} {state}" for state in order if files.get(state))
