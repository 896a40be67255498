"""`inboxd pause` and `inboxd resume`: stop and start taking up files, without stopping the daemon."""

from __future__ import annotations

import time

from inboxd.cli import given
from inboxd.cli.printing import say


def pause(config: given.ConfigOption = None) -> None:
    """Take up no more work until `inboxd resume`.

    Pages in flight are finished, and the daemon keeps running.
    """
    _set(config, True)
    say("Paused. What is in flight is finished; files that come are seen and wait. Go on with: inboxd resume")


def resume(config: given.ConfigOption = None) -> None:
    """Go on reading after `inboxd pause`."""
    _set(config, False)
    say("Reading goes on.")


def _set(config: given.ConfigOption, on: bool) -> None:
    from inboxd.ledger import runs

    with given.ledger(given.settings(config)) as ledger:
        ledger.write_now(runs.pause, on, now=time.time())
