"""`inboxd init`: write a commented configuration that works, and make the folders that it names."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from inboxd import config as configuration
from inboxd.cli import given, sample
from inboxd.cli.printing import say, shown
from inboxd.errors import InboxdError, UsageError


@click.command()
@click.option(
    "--config",
    type=given.PATH,
    metavar="FILE",
    envvar="INBOXD_CONFIG",
    help="Write it there; else to $INBOXD_CONFIG, else to /etc/inboxd/inboxd.toml as root and to "
    "~/.config/inboxd/inboxd.toml as anybody else.",
)
@click.option("--inbox", multiple=True, type=given.PATH, metavar="DIR", help="A folder to watch; may be repeated.")
@click.option("--state", type=given.PATH, metavar="DIR", help="For the ledger and the spool; on a local disk.")
@click.option("--engine", metavar="NAME", help="auto, cpu, vllm or null.")
@click.option("--force", is_flag=True, help="Write over a configuration that is there.")
def init(config: Path | None, inbox: Sequence[Path], state: Path | None, engine: str | None, force: bool) -> None:
    """Write a commented configuration, and make its folders.

    Asks only on a terminal, and only when no inbox is named.
    """
    target = config or given.places()[0 if os.geteuid() == 0 else 1]
    if target.exists() and not force:
        raise InboxdError(f"{shown(target)} is there already", "Name another with --config, or add --force.")
    if not inbox:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("no folder to watch was named", "Add --inbox /path/to/folder; it may be given again.")
        inbox = [Path(click.prompt("Folder to watch"))]
        state = state or Path(click.prompt("Folder for the ledger", default=str(_default_state())))
        engine = engine or click.prompt("Engine (auto, cpu, vllm, null)", default="auto")
    folders = [_absolute(path) for path in inbox]
    home = _absolute(state or _default_state())
    text = sample.filled(str(home), [str(path) for path in folders], engine or "auto")
    configuration.parse(text, shown(target))  # refuse what `run` would refuse, before anything is made
    _make(home, "the state folder", mode=0o750)
    for path in folders:
        _make(path, "the inbox", mode=0o777)
    _write(target, text, force)
    say(f"Wrote {shown(target)}")
    is_found = target == next(filter(given.there, given.places()), None)
    option = "" if is_found else f" --config {shlex.quote(str(target))}"
    say(f"Next: inboxd check{option}, then inboxd run{option}")


def _default_state() -> Path:
    if os.geteuid() == 0:
        return configuration.DEFAULT_STATE
    own = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - never raises
    return Path(own) / "inboxd"


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - resolve() would follow links


def _make(path: Path, what: str, mode: int) -> None:
    if path.is_dir():
        return
    try:
        path.mkdir(mode=mode, parents=True)
    except OSError as error:
        raise InboxdError(
            f"cannot make {what} {shown(path)}: {error.strerror}", "Make it yourself, or name another."
        ) from error
    say(f"Made {what} {shown(path)}: it was not there")


def _write(target: Path, text: bytes, force: bool) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb" if force else "xb") as file:
            file.write(text)
    except OSError as error:
        raise InboxdError(
            f"cannot write {shown(target)}: {error.strerror}", "Run it with sudo, or name another with --config."
        ) from error
