"""Looks at the ledger for `inboxd check`: is it ours to read, at this program's version, and does a daemon use it."""

from __future__ import annotations

from collections.abc import Iterator

from inboxd import config
from inboxd.cli import given
from inboxd.cli.finding import Finding, Level
from inboxd.cli.when import local
from inboxd.errors import LedgerError


def ledger(settings: config.Settings) -> Iterator[Finding]:
    """The ledger, if there is one yet, and the daemon that owns it, if one runs."""
    from inboxd.ledger.lock import owner

    try:
        with given.reader(settings) as reader:
            yield Finding(Level.OK, "ledger", f"can be read, schema {reader.version}")
        daemon = owner(settings.ledger_path)
    except LedgerError as error:
        if given.there(settings.ledger_path):
            yield Finding(Level.FAIL, "ledger", error.what, error.advice)
        else:
            yield Finding(Level.OK, "ledger", "none yet: the daemon makes it when it first runs")
        return
    if daemon is not None:
        yield Finding(Level.OK, "daemon", f"runs: process {daemon.pid}, since {local(daemon.since)}; only one can")
    else:
        yield Finding(Level.OK, "daemon", "none runs")
