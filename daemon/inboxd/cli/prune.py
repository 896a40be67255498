"""`inboxd prune`: forget old history now, as the daemon does once a day."""

from __future__ import annotations

import time
from pathlib import Path

import click

from inboxd.cli import given
from inboxd.cli.printing import say

_DAY_S = 86_400.0

_DAYS = click.IntRange(min=0, max=36_500)


@click.command()
@given.config_option
@click.option("--events-days", type=_DAYS, metavar="N", help="Forget older events; else as [prune] says.")
@click.option("--samples-days", type=_DAYS, metavar="N", help="Forget older memory samples; else as [prune] says.")
@click.option("--dry-run", is_flag=True, help="Only say how much would be forgotten.")
def prune(config: Path | None, events_days: int | None, samples_days: int | None, dry_run: bool) -> None:
    """Forget old history and memory samples.

    Files, pages and texts stay. 0 days keeps for ever.
    """
    settings = given.settings(config)
    now = time.time()
    events = _before(now, settings.prune.events_days if events_days is None else events_days)
    samples = _before(now, settings.prune.samples_days if samples_days is None else samples_days)
    if dry_run:
        from inboxd.ledger.glance import old

        with given.reader(settings) as reader:
            count = old(reader, events_before=events, samples_before=samples)
        say(f"{count.events} events and {count.samples} samples would be forgotten.")
        return
    from inboxd.ledger import runs

    forgotten_events = forgotten_samples = 0
    with given.ledger(settings) as ledger:
        is_all = False
        while not is_all:
            gone = ledger.write_now(runs.prune, events_before=events, samples_before=samples, now=now)
            forgotten_events += gone.events
            forgotten_samples += gone.samples
            is_all = gone.all
    say(f"{forgotten_events} events and {forgotten_samples} samples forgotten.")


def _before(now: float, days: int) -> float | None:
    return now - days * _DAY_S if days else None
