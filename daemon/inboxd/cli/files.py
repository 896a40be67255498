"""`inboxd files`: which files the ledger knows, newest first."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from inboxd.cli import given
from inboxd.cli.printing import print_json, say, table
from inboxd.cli.when import local
from inboxd.core.lifecycle import FileState


def files(
    config: given.ConfigOption = None,
    state: Annotated[FileState | None, typer.Option(help="Only files in this state.")] = None,
    inbox: Annotated[Path | None, typer.Option(metavar="DIR", help="Only files of this inbox.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 50,
    json: given.JsonOption = False,
) -> None:
    """List files with their states and reasons, newest first."""
    settings = given.settings(config)
    with given.reader(settings) as reader:
        rows = reader.files(state=state, inbox=given.inbox(settings, inbox), limit=limit)
    if json:
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
