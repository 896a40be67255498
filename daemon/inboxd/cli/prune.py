"""`inboxd prune`: forget old history now, as the daemon does once a day."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from inboxd.cli import given
from inboxd.cli.printing import say

_DAY_S = 86_400.0
_AT_ONCE = 20_000

_CONFIGURED = "[prune] in the configuration"


def prune(
    config: given.ConfigOption = None,
    events_days: Annotated[
        int | None, typer.Option(min=0, metavar="N", show_default=_CONFIGURED, help="Forget events older than N days.")
    ] = None,
    samples_days: Annotated[
        int | None, typer.Option(min=0, metavar="N", show_default=_CONFIGURED, help="Forget samples older than N days.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how much would be forgotten.")] = False,
) -> None:
    """Forget old history and memory samples.

    Files, pages and texts stay. 0 days keeps for ever.
    """
    settings = given.settings(config)
    now = time.time()
    events = _before(now, settings.prune.events_days if events_days is None else events_days)
    samples = _before(now, settings.prune.samples_days if samples_days is None else samples_days)
    if dry_run:
        with given.reader(settings) as reader:
            old = reader.prunable(events_before=events, samples_before=samples)
        say(f"{old.events} events and {old.samples} samples would be forgotten.")
        return
    from inboxd.ledger import runs

    forgotten_events = forgotten_samples = 0
    with given.ledger(settings) as ledger:
        while True:
            gone = ledger.write_now(runs.prune, events_before=events, samples_before=samples, limit=_AT_ONCE, now=now)
            forgotten_events += gone.events
            forgotten_samples += gone.samples
            if gone.events + gone.samples < _AT_ONCE:
                break
    say(f"{forgotten_events} events and {forgotten_samples} samples forgotten.")


def _before(now: float, days: int) -> float | None:
    return now - days * _DAY_S if days else None
