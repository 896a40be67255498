"""What `inboxd install-service` puts where, below `/` or below the root of an image that is being built."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from inboxd import config as configuration
from inboxd.cli.printing import say, shown
from inboxd.core import unit
from inboxd.errors import InboxdError
from inboxd.resources import folder

USER = "inboxd"


class Installation:
    """One instance of the service on one machine; `instance` None is the plain `inboxd.service`."""

    def __init__(self, root: Path, instance: str | None) -> None:
        self.root = root
        self._template = "inboxd@.service" if instance else "inboxd.service"
        self.service = f"inboxd@{instance}.service" if instance else "inboxd.service"
        self.state = f"/var/lib/inboxd-{instance}" if instance else str(configuration.DEFAULT_STATE)
        self.config = root / f"etc/inboxd/{instance or 'inboxd'}.toml"
        self.unit = root / "etc/systemd/system" / self._template
        self.folders = root / f"etc/systemd/system/{self.service}.d/10-folders.conf"
        self.sysusers = root / "etc/sysusers.d/inboxd.conf"

    @property
    def live(self) -> bool:
        """Whether this is the running machine, whose service manager is to be told."""
        return self.root == Path("/")

    def put_user(self) -> None:
        """The service's user."""
        self.put(self.sysusers, (folder("systemd") / "inboxd.sysusers").read_bytes())
        if self.live:
            tell("systemd-sysusers", str(self.sysusers))

    def put_unit(self, program: str, settings: configuration.Settings) -> None:
        """The unit, and the folders that it may write in."""
        shipped = (folder("systemd") / self._template).read_text(encoding="utf-8")
        self.put(self.unit, unit.with_program(shipped, program).encode())
        self.put(self.folders, unit.folders(_written(settings, self.state)).encode())

    def put(self, target: Path, content: bytes) -> None:
        """Write a file, if it is not so already."""
        if target.exists() and target.read_bytes() == content:
            say(f"unchanged  {shown(target)}")
            return
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(0o644)
        except OSError as error:
            raise InboxdError(f"cannot write {shown(target)}: {error.strerror}", "Run it with sudo.") from error
        say(f"wrote      {shown(target)}")

    def make(self, path: str) -> None:
        """A folder to watch, if it is missing, for the service's user and group to write in."""
        target = self.root / path.lstrip("/")
        if target.is_dir():
            return
        try:
            target.mkdir(parents=True)
            target.chmod(0o2775)
            if self.live:
                shutil.chown(target, USER, USER)
        except OSError as error:
            raise InboxdError(f"cannot make {shown(target)}: {error.strerror}", "Make it yourself.") from error
        say(f"made       {shown(target)}")

    def remove(self, targets: Iterable[Path]) -> None:
        """Take files away, and folders of ours that are empty then."""
        for target in targets:
            try:
                target.unlink()
                say(f"removed    {shown(target)}")
                if target.parent.name.endswith(".service.d") and not any(target.parent.iterdir()):
                    target.parent.rmdir()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise InboxdError(f"cannot remove {shown(target)}: {error.strerror}", "Run it with sudo.") from error


def tell(*command: str) -> str:
    """Run a program of systemd's and return what it says.

    Raises:
        InboxdError: it is not installed, or failed.
    """
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise InboxdError(f"{command[0]} is not there", "install-service needs a machine that runs systemd.") from error
    except subprocess.CalledProcessError as error:
        raise InboxdError(f"`{' '.join(command)}` failed: {error.stderr.strip()}", "Mend what it names.") from error
    return done.stdout


def denied(paths: Sequence[str]) -> list[str]:
    """Those of the folders that are there and where the service's user may not read, write and search."""
    try_it = 'for f; do [ ! -d "$f" ] || { [ -r "$f" ] && [ -w "$f" ] && [ -x "$f" ]; } || printf "%s\\n" "$f"; done'
    as_user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "--", "sh", "-c", try_it, "sh")
    return tell(*as_user, *paths).splitlines()


def folders_of(settings: configuration.Settings) -> list[str]:
    """Every folder in which the configuration has the daemon write, but for its state."""
    named = [(inbox.path, inbox.output_dir, inbox.archive_dir) for inbox in settings.inbox]
    return [os.path.normpath(path) for paths in named for path in paths if path is not None]


def _written(settings: configuration.Settings, default_state: str) -> list[str]:
    state = os.path.normpath(settings.state)
    return folders_of(settings) + ([] if state == default_state else [state])
