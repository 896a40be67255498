"""`inboxd requeue`: have files read again."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import click

from inboxd.cli import given
from inboxd.cli.printing import say
from inboxd.core.lifecycle import FileState
from inboxd.core.naming import display
from inboxd.errors import InboxdError, UsageError

BACK = "To have an original read again, move it back to where it was, then requeue it."


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]...")
@given.config_option
@click.option("--failed", is_flag=True, help="Every file that is quarantined, or has a page that could not be read.")
@given.state_option("Every file in this state.")
def requeue(files: Sequence[str], config: Path | None, failed: bool, state: FileState | None) -> None:
    """Have files read again from their originals.

    FILE is a path, the end of a path, or an id. It is as if they had just been dropped; a running daemon
    notices by itself.
    """
    if bool(files) + failed + bool(state) != 1:
        raise UsageError("name files to requeue, or a whole state", "inboxd requeue FILE..., --failed or --state S.")
    settings = given.settings(config)
    from inboxd.ledger import glance, runs

    with given.reader(settings) as reader:
        if failed:
            chosen = glance.failed(reader)
        elif state is not None:
            chosen = [row.id for row in reader.files(state=state, limit=-1)]
        else:
            chosen = [given.one_file(reader, file).id for file in files]
        away = {
            file: (was, to) for file, (was, to) in glance.archived(reader, chosen).items() if not os.path.lexists(was)
        }
    if files and away:
        raise InboxdError("\n".join(f"{display(was)} is in the archive: {to}" for was, to in away.values()), BACK)
    chosen = [file for file in chosen if file not in away]
    with given.ledger(settings) as ledger:
        count = ledger.write_now(runs.requeue, chosen, now=time.time())
    say(f"{count} file{'' if count == 1 else 's'} will be read again.")
    if away:
        say(f"{len(away)} left as they are: the archive has their originals. {BACK}")
