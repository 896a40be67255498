"""`inboxd ignored`: what lies in the inboxes and is never taken, and which rule says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inboxd.cli import given
from inboxd.cli.printing import print_json, say, table
from inboxd.core.naming import display

if TYPE_CHECKING:
    from inboxd.config import Inbox
    from inboxd.core.ignoring import Rule
    from inboxd.ledger.reading import Reader


@click.command()
@given.config_option
@click.option("--outputs", is_flag=True, help="List the outputs of inboxd too.")
@given.json_option
def ignored(config: Path | None, outputs: bool, as_json: bool) -> None:
    """List what is never taken, and the rule that says so."""
    settings = given.settings(config)
    reader = given.reader(settings) if given.there(settings.ledger_path) else None
    found: list[tuple[str, Rule]] = []
    unlisted = 0
    for inbox in settings.inbox:
        for path, rule, ours in _walk(inbox, reader):
            if ours and not outputs:
                unlisted += 1
            else:
                found.append((display(path), rule))
    if reader is not None:
        reader.close()
    if as_json:
        print_json([{"path": path, "glob": rule.glob, "why": rule.why} for path, rule in found])
        return
    table(("path", "rule", "why"), ((path, rule.glob, rule.why) for path, rule in found))
    if unlisted:
        say(f"Not listed: {unlisted} output{'s' if unlisted > 1 else ''} of inboxd (see --outputs).", error=True)


def _walk(inbox: Inbox, reader: Reader | None) -> Iterator[tuple[bytes, Rule, bool]]:
    """Every ignored entry below an inbox, the rule, and whether it is one of our outputs."""
    from inboxd.core.ignoring import Filter, Rule, output_beside

    top = os.fsencode(inbox.path)
    filtering = Filter(inbox.include, inbox.exclude)
    folders = [b""]
    while folders:
        folder = folders.pop()
        where = os.path.join(top, folder)  # noqa: PTH118 - bytes
        try:
            with os.scandir(where) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            yield where, Rule("-", f"cannot be listed: {error.strerror}"), False
            continue
        names = {entry.name for entry in entries}
        written = reader.outputs_in(where.rstrip(b"/") or b"/") if reader is not None else set()
        for entry in entries:
            below = os.path.join(folder, entry.name)  # noqa: PTH118 - bytes
            if entry.is_dir(follow_symlinks=False):
                rule = filtering.folder(folder, entry.name)
                if rule is not None:
                    yield entry.path, rule, False
                elif inbox.recursive:
                    folders.append(below)
            elif entry.name in written:
                yield entry.path, Rule("-", "output of inboxd, by the ledger"), True
            elif (rule := output_beside(entry.name, names, inbox.outputs)) is not None:
                yield entry.path, rule, True
            elif (rule := filtering.file(folder, entry.name)) is not None:
                yield entry.path, rule, False
