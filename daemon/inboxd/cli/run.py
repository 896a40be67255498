"""`inboxd run`: be the daemon."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from inboxd.cli import given

if TYPE_CHECKING:
    from types import FrameType


def run(
    config: given.ConfigOption = None,
    until_drained: Annotated[
        bool, typer.Option("--until-drained", help="End with 0 once every file in the inboxes is final.")
    ] = False,
    log_json: Annotated[bool, typer.Option("--log-json", help="Write the log as JSON.")] = False,
) -> None:
    """Be the daemon: read what comes, until stopped.

    Ctrl-C or SIGTERM ends it tidily, a second one at once.
    """
    # The imports below take a while, and `systemctl stop` may come meanwhile: nothing has begun that would need ending.
    signal.signal(signal.SIGTERM, _leave)
    settings = given.settings(config)
    from inboxd import logs, service

    bar = until_drained and sys.stderr.isatty() and sys.stdout.isatty()
    logs.configure("warning" if bar else settings.log_level, json=log_json)
    if not bar:
        raise typer.Exit(service.run(settings, until_drained=until_drained))
    from inboxd.cli.bars import draining

    with draining() as on_progress:
        code = service.run(settings, until_drained=True, on_progress=on_progress)
    raise typer.Exit(code)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
