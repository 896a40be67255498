"""`inboxd recycle`: let the running daemon begin a new life."""

from __future__ import annotations

import getpass
import os
import time
from pathlib import Path

import click

from inboxd.cli import given
from inboxd.cli.printing import say
from inboxd.errors import InboxdError


@click.command()
@given.config_option
def recycle(config: Path | None) -> None:
    """Let the daemon finish its work and begin anew.

    It does so by itself when its memory is in pieces. It ends with 75, on which systemd starts it again at once;
    without systemd it just ends.
    """
    from inboxd.ledger import upkeep
    from inboxd.ledger.lock import owner

    settings = given.settings(config)
    daemon = owner(settings.ledger_path)
    if daemon is None:
        raise InboxdError("no daemon runs on this ledger", "Start it: systemctl start inboxd, or inboxd run.")
    with given.ledger(settings) as ledger:
        ledger.write_now(upkeep.ask_recycle, os.environ.get("SUDO_USER") or getpass.getuser(), now=time.time())
    say(f"Asked. Process {daemon.pid} finishes the pages in flight and ends; inboxd status shows the next one.")
