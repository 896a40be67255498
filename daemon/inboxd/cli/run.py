"""`inboxd run`: be the daemon."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inboxd import config as configuration
from inboxd.cli import given

if TYPE_CHECKING:
    from types import FrameType


@click.command()
@given.config_option
@click.option("--until-drained", is_flag=True, help="End with 0 once every file in the inboxes is final.")
@click.option("--log-json", is_flag=True, help="Write the log as JSON.")
def run(config: Path | None, until_drained: bool, log_json: bool) -> int:
    """Be the daemon: read what comes, until stopped.

    Ctrl-C or SIGTERM ends it tidily, a second one at once.
    """
    # The imports below take a while, and `systemctl stop` may come meanwhile: nothing has begun that would need ending.
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # `systemctl reload`, likewise
    path = given.config_path(config)
    settings = configuration.load(path)
    from inboxd import logs, service

    bar = until_drained and sys.stderr.isatty() and sys.stdout.isatty()
    logs.configure("warning" if bar else settings.log_level, json=log_json)
    if not bar:
        return service.run(settings, path, until_drained=until_drained)
    from inboxd.cli.bars import draining

    with draining() as on_progress:
        return service.run(settings, path, until_drained=True, on_progress=on_progress)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
