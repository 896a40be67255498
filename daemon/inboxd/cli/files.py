"""`inboxd files`: which files the ledger knows, newest first."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from inboxd.cli import given
from inboxd.cli.printing import print_json, say, table
from inboxd.cli.when import local
from inboxd.core.lifecycle import FileState


@click.command()
@given.config_option
@given.state_option("Only files in this state.")
@click.option("--inbox", type=given.PATH, metavar="DIR", help="Only files of this inbox.")
@click.option("--limit", type=given.COUNT, default=50, metavar="N", help="At most so many; 50.")
@given.json_option
def files(config: Path | None, state: FileState | None, inbox: Path | None, limit: int, as_json: bool) -> None:
    """List files with their states and reasons, newest first."""
    settings = given.settings(config)
    with given.reader(settings) as reader:
        rows = reader.files(state=state, inbox=given.inbox(settings, inbox), limit=limit)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    count = table(
        ("id", "state", "pages", "path", "reason", "first seen"),
        (
            (row.id, row.state, _pages(row.pages_done, row.pages), row.path, row.reason, local(row.first_seen))
            for row in rows
        ),
    )
    if count == limit:
        say(f"These are the newest {limit}; --limit shows more.", error=True)


def _pages(done: int, pages: int | None) -> str:
    if pages is None:
        return ""
    return str(pages) if done >= pages else f"{done}/{pages}"
