"""`inboxd check`: what is wrong with the configuration or the machine, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from inboxd import config as configuration
from inboxd.cli import check_engine, check_folders, check_machine, given
from inboxd.cli.finding import Finding, Level
from inboxd.cli.printing import print_json, say, shown
from inboxd.core.showing import one_line
from inboxd.errors import ConfigError, Exit

_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


def check(
    config: given.ConfigOption = None,
    engine: Annotated[
        bool, typer.Option("--engine", help="Start the engine too; with a large model: minutes.")
    ] = False,
    json: given.JsonOption = False,
) -> None:
    """Say what is wrong here, and what to do about it.

    Looks at the configuration, the folders and the machine.
    Ends with 78 if anything would keep the daemon from its work, else with 0.
    """
    findings: list[Finding] = []
    for finding in _look(config, engine):
        findings.append(finding)
        if not json:
            _print(finding)
    if json:
        print_json([asdict(finding) for finding in findings])
    if any(finding.level is Level.FAIL for finding in findings):
        raise typer.Exit(Exit.CONFIG)


def _look(named: Path | None, start_engine: bool) -> Iterator[Finding]:
    try:
        path = given.config_path(named)
        settings = configuration.load(path)
    except ConfigError as error:
        yield Finding(Level.FAIL, "configuration", error.what, error.advice)
        return
    yield Finding(Level.OK, "configuration", shown(path))
    yield from check_folders.inboxes(settings)
    yield from check_folders.state(settings)
    yield from check_machine.watches(settings)
    yield from check_machine.scripts()
    yield from check_machine.graphics(settings)
    yield from check_engine.engine(settings, start_engine)


def _print(finding: Finding) -> None:
    say(f"{finding.level:<5}", colour=_COLOURS[finding.level], end="")
    say(f"{finding.about}: {one_line(finding.says)}")
    for line in finding.advice.splitlines():
        say(f"     → {one_line(line)}")
