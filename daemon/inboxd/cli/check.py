"""`inboxd check`: what is wrong with the configuration or the machine, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from inboxd import config as configuration
from inboxd.cli import given
from inboxd.cli.finding import Finding, Level
from inboxd.cli.printing import print_json, say, shown
from inboxd.core.showing import one_line
from inboxd.errors import ConfigError, Exit

_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


@click.command()
@given.config_option
@click.option("--engine", is_flag=True, help="Start the engine too; with a large model that takes minutes.")
@given.json_option
def check(config: Path | None, engine: bool, as_json: bool) -> int:
    """Say what is wrong here, and what to do about it.

    Looks at the configuration, the folders and the machine.
    Ends with 78 if anything would keep the daemon from its work, else with 0.
    """
    findings: list[Finding] = []
    for finding in _look(config, engine):
        findings.append(finding)
        if not as_json:
            _print(finding)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    return Exit.CONFIG if any(finding.level is Level.FAIL for finding in findings) else Exit.OK


def _look(named: Path | None, start_engine: bool) -> Iterator[Finding]:
    try:
        path = given.config_path(named)
        settings = configuration.load(path)
    except ConfigError as error:
        yield Finding(Level.FAIL, "configuration", error.what, error.advice)
        return
    yield Finding(Level.OK, "configuration", shown(path))
    # Not at the top: every other command would load them too.
    from inboxd.cli import check_engine, check_folders, check_ledger, check_machine

    yield from check_folders.user(path)
    yield from check_folders.inboxes(settings)
    yield from check_folders.state(settings)
    yield from check_ledger.ledger(settings)
    yield from check_machine.watches(settings)
    yield from check_machine.scripts()
    yield from check_machine.sandbox(settings)
    yield from check_machine.graphics(settings)
    yield from check_engine.engine(settings, start_engine)


def _print(finding: Finding) -> None:
    say(f"{finding.level:<5}", colour=_COLOURS[finding.level], end="")
    say(f"{finding.about}: {one_line(finding.says)}")
    for line in finding.advice.splitlines():
        say(f"     → {one_line(line)}")
