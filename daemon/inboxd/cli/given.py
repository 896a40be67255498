"""What every verb is given: the configuration that applies, and a read-only look at its ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from inboxd import config
from inboxd.core.lifecycle import FileState
from inboxd.core.naming import display
from inboxd.errors import ConfigError, InboxdError, LedgerError, UsageError

if TYPE_CHECKING:
    from inboxd.ledger.opening import Ledger
    from inboxd.ledger.reading import Reader
    from inboxd.ledger.rows import FileRow

F = TypeVar("F", bound=Callable[..., object])

_LISTED = 10


class _Path(click.Path):
    """A path; an empty one, of a variable that is not set, is not the folder that one happens to be in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty", param, ctx)
        return super().convert(value, param, ctx)


PATH = _Path(readable=False, path_type=Path)  # click would call what can't be read wrong usage
config_option = click.option(
    "--config",
    type=PATH,
    metavar="FILE",
    envvar="INBOXD_CONFIG",
    help="The configuration; else $INBOXD_CONFIG, /etc/inboxd/inboxd.toml, ~/.config/inboxd/inboxd.toml.",
)
COUNT = click.IntRange(min=1, max=1_000_000_000)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")


def state_option(meaning: str) -> Callable[[F], F]:
    """`--state`, with what it chooses."""

    def state(_: click.Context, __: click.Parameter, value: str | None) -> FileState | None:
        return FileState(value) if value is not None else None

    names = [state.value for state in FileState]  # of an Enum itself click would take the upper-case names
    return click.option("--state", type=click.Choice(names), metavar="STATE", callback=state, help=meaning)


def places() -> tuple[Path, ...]:
    """Where a configuration is looked for when none is named, in order."""
    own = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - never raises
    return config.DEFAULT_CONFIG, Path(own) / "inboxd" / "inboxd.toml"


def config_path(named: Path | None) -> Path:
    """The configuration file that applies.

    Raises:
        ConfigError: none was named and none lies in the usual places; says which.
    """
    if named is not None:
        return named
    tried = places()
    found = _first_there(tried)
    if found is not None:
        return found
    raise ConfigError(
        f"no configuration found: tried $INBOXD_CONFIG (not set), {' and '.join(map(str, tried))}",
        "Write one with: inboxd init --inbox /path/to/folder\nor name one with --config FILE.",
    )


def there(path: Path) -> bool:
    """Whether something is at that path; also where only others may know: reading it will say why it can't be read."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def settings(named: Path | None) -> config.Settings:
    """The settings that apply.

    Raises:
        ConfigError: there is no configuration, or it is wrong.
    """
    return config.load(config_path(named))


def settings_or_defaults(named: Path | None) -> config.Settings:
    """As `settings`, but where there is no configuration at all the defaults apply.

    Raises:
        ConfigError: there is one, and it is wrong.
    """
    if named is None and _first_there(places()) is None:
        return config.Settings()
    return settings(named)


def reader(chosen: config.Settings) -> Reader:
    """A read-only look at the ledger; it works while the daemon runs.

    Raises:
        LedgerError: there is no ledger yet, or it can't be read.
    """
    from inboxd.ledger.reading import Reader

    _must_exist(chosen)
    return Reader(chosen.ledger_path)


@contextmanager
def ledger(chosen: config.Settings) -> Iterator[Ledger]:
    """The ledger for a change, beside a running daemon; only what is there is opened.

    Raises:
        LedgerError: there is no ledger yet, or it can't be opened.
    """
    from inboxd import logs
    from inboxd.ledger.opening import Ledger

    _must_exist(chosen)
    logs.configure("warning")
    opened = Ledger.open(chosen.ledger_path, create=False)
    try:
        yield opened
    finally:
        opened.close()


def one_file(reader: Reader, what: str) -> FileRow:
    """The one file that a person means by a path, the end of a path, or an id.

    Raises:
        InboxdError: none, or several; names them.
    """
    found = reader.find(os.path.abspath(os.fsencode(what))) if os.path.lexists(what) else []  # noqa: PTH100 - bytes
    found = found or reader.find(what)
    if not found:
        raise InboxdError(
            f"the ledger knows no file {display(os.fsencode(what))}",
            "inboxd files lists those that it knows; inboxd ignored lists what is never taken.",
        )
    if len(found) > 1:
        listed = "\n".join(f"  {row.id:>6}  {row.path}" for row in found[:_LISTED])
        more = f"\n  and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        raise InboxdError(
            f"{len(found)} files match {display(os.fsencode(what))}:", f"{listed}{more}\nName one by its id."
        )
    return found[0]


def inbox(chosen: config.Settings, named: Path | None) -> str | None:
    """The configured inbox that a person names, as the ledger shows it.

    Raises:
        UsageError: there is none of that path.
    """
    if named is None:
        return None
    wanted = os.path.abspath(named)  # noqa: PTH100 - resolve() would follow links
    known = [os.path.normpath(inbox.path) for inbox in chosen.inbox]
    if wanted not in known:
        listed = ", ".join(display(os.fsencode(path)) for path in known) or "none"
        raise UsageError(f"{display(os.fsencode(wanted))} is no inbox", f"The configured ones: {listed}.")
    return display(os.fsencode(wanted))


def _first_there(files: Sequence[Path]) -> Path | None:
    return next(filter(there, files), None)


def _must_exist(chosen: config.Settings) -> None:
    try:
        found = chosen.ledger_path.exists()
    except PermissionError as error:
        raise LedgerError(
            f"{chosen.ledger_path} cannot be looked at: {error.strerror}",
            "Run this as the daemon's user or as root: sudo inboxd ...",
        ) from error
    if not found:
        raise LedgerError(
            f"there is no ledger at {chosen.ledger_path} yet",
            "The daemon makes it when it first runs: inboxd run. Is `state` in the configuration the right folder?",
        )
