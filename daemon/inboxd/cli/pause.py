"""`inboxd pause` and `inboxd resume`: stop and start taking up files, without stopping the daemon."""

from __future__ import annotations

import time
from pathlib import Path

import click

from inboxd.cli import given
from inboxd.cli.printing import say


@click.command()
@given.config_option
def pause(config: Path | None) -> None:
    """Take up no more work until `inboxd resume`.

    Pages in flight are finished, and the daemon keeps running.
    """
    _set(config, True)
    say("Paused. What is in flight is finished; files that come are seen and wait. Go on with: inboxd resume")


@click.command()
@given.config_option
def resume(config: Path | None) -> None:
    """Go on reading after `inboxd pause`."""
    _set(config, False)
    say("Reading goes on.")


def _set(config: Path | None, on: bool) -> None:
    from inboxd.ledger import runs

    with given.ledger(given.settings(config)) as ledger:
        ledger.write_now(runs.pause, on, now=time.time())
