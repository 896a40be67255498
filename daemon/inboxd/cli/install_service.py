"""`inboxd install-service` and `uninstall-service`: user, folders, configuration and unit, put in place, taken away."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from inboxd import config as configuration
from inboxd.cli import given, sample
from inboxd.cli.installation import USER, Installation, folders_of, hindrances, tell
from inboxd.cli.printing import say, shown
from inboxd.core import unit
from inboxd.errors import InboxdError, UsageError

_instance_option = click.option(
    "--instance", metavar="NAME", help="One of several: inboxd@NAME.service with /etc/inboxd/NAME.toml."
)
_root_option = click.option(
    "--root",
    type=given.PATH,
    default=Path("/"),
    metavar="DIR",
    help="Put everything below this folder, for an image or a package.",
)


@click.command()
@click.option(
    "--inbox",
    multiple=True,
    type=given.PATH,
    metavar="DIR",
    help="A folder to watch, for the configuration where there is none yet; may be repeated.",
)
@_instance_option
@click.option("--program", type=given.PATH, metavar="FILE", help="The inboxd to start; without it, this one.")
@click.option("--start", is_flag=True, help="Start it now, or restart it.")
@_root_option
def install_service(inbox: Sequence[Path], instance: str | None, program: Path | None, start: bool, root: Path) -> None:
    """Let systemd run inboxd: user, folders and unit.

    What is so already stays untouched. Run it again after an upgrade, and when the folders in the configuration change.
    """
    place = _place(root, instance)
    started = _program(program)
    wanted = [os.path.abspath(path) for path in inbox]  # noqa: PTH100 - resolve() would follow links
    settings = _settings(place, wanted)
    place.put_user()
    for path in wanted:
        place.make_inbox(path)
    place.make_state(settings)
    place.put_unit(started, settings)
    if not place.live:
        return
    tell("systemctl", "daemon-reload")
    tell("systemctl", "enable", place.service)
    for what, command in hindrances(place.config, folders_of(settings)):
        say(f"warning    {what}", error=True)
        say(f"           → {command}", error=True)
    if start:
        tell("systemctl", "restart", place.service)
        say(f"started    {place.service}")
    else:
        say(f"enabled    {place.service}; start it with: systemctl start {place.service}")


@click.command()
@_instance_option
@_root_option
def uninstall_service(instance: str | None, root: Path) -> None:
    """Stop the service and take its unit away. The configuration, the ledger and the user stay; says where they are."""
    place = _place(root, instance)
    if place.live and place.unit.exists():
        tell("systemctl", "disable", "--now", place.service)
    instances = [other for other in place.unit.parent.glob("inboxd@*.service.d") if other != place.folders.parent]
    place.remove([place.folders, *([place.unit] if instance is None or not instances else [])])
    if not instances and not (place.unit.parent / "inboxd.service").exists():  # nobody is left who runs as that user
        place.remove([place.sysusers])
    if place.live:
        tell("systemctl", "daemon-reload")
    say(f"kept       {shown(place.config)}, {place.state} and the user {USER}")


def _place(root: Path, instance: str | None) -> Installation:
    if instance is not None and not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", instance):
        raise UsageError(f"{instance!r} can't be the name of an instance", "Use letters, digits and _ . - only.")
    place = Installation(root.absolute(), instance)
    if place.live and os.geteuid() != 0:
        raise InboxdError("only root can install a service", "Run it with sudo.")
    return place


def _program(named: Path | None) -> str:
    """The absolute path of the program to start, where a hardened service can see it and its interpreter."""
    program = named.absolute() if named else Path(sys.prefix) / "bin" / "inboxd"
    if not named and not program.exists():
        raise InboxdError(f"there is no {shown(program)}", "Name the installed program with --program.")
    seen = [program] if named else [program, Path(sys.base_prefix)]
    for path in map(str, seen):
        if unit.is_hidden(path) or unit.is_hidden(os.path.realpath(path)):
            raise InboxdError(
                f"{shown(path)} lies in a home folder, which the service can't see",
                f"Install it elsewhere, with the system's Python:\n"
                f"  /usr/bin/python3 -m venv {unit.PROGRAM.removesuffix('/bin/inboxd')}\n"
                f"  {unit.PROGRAM.removesuffix('inboxd')}pip install CLONE   # where inboxd was cloned to\n"
                f"  {unit.PROGRAM} install-service",
            )
    return str(program)


def _settings(place: Installation, wanted: Sequence[str]) -> configuration.Settings:
    """The configuration that is there, or a new one for these inboxes."""
    if place.config.exists():
        known = {os.path.normpath(inbox.path) for inbox in configuration.load(place.config).inbox}
        if new := [path for path in wanted if path not in known]:
            raise UsageError(
                f"{shown(place.config)} is there already, and does not name {', '.join(map(shown, new))}",
                "Add the folder to it, and run this again.",
            )
        say(f"unchanged  {shown(place.config)}")
    else:
        if not wanted:
            raise UsageError(f"there is no {shown(place.config)} yet", "Name the folder to watch: --inbox /srv/scans")
        text = sample.filled(place.state, wanted, "auto")
        configuration.parse(text, shown(place.config))
        place.put(place.config, text)
    return configuration.load(place.config)
