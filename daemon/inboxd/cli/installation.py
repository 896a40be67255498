"""What `inboxd install-service` puts where, below `/` or below the root of an image that is being built."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
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
            _make_way(target.parent)
            target.write_bytes(content)
            target.chmod(0o644)
        except OSError as error:
            raise InboxdError(f"cannot write {shown(target)}: {error.strerror}", "Run it with sudo.") from error
        say(f"wrote      {shown(target)}")

    def make_inbox(self, path: str) -> None:
        """A folder to watch, if it is missing, for the service's user and group to write in."""
        self._make(path, 0o2775)

    def make_state(self, settings: configuration.Settings) -> None:
        """The state folder, if it is missing: systemd makes it at the first start, but a model may be fetched before.

        Not in an image, where the service's user has no number yet.
        """
        if self.live:
            self._make(os.path.normpath(settings.state), 0o750)

    def _make(self, path: str, mode: int) -> None:
        target = self.root / path.lstrip("/")
        if target.is_dir():
            return
        try:
            _make_way(target.parent)
            target.mkdir()
            target.chmod(mode)
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


def tell(*command: str, descriptors: Sequence[int] = ()) -> str:
    """Run a program, of systemd's for the most part, with these descriptors and return what it says.

    Raises:
        InboxdError: it is not installed, or failed.
    """
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, pass_fds=descriptors)
    except FileNotFoundError as error:
        raise InboxdError(f"{command[0]} is not there", "install-service needs a machine that runs systemd.") from error
    except subprocess.CalledProcessError as error:
        raise InboxdError(f"`{' '.join(command)}` failed: {error.stderr.strip()}", "Mend what it names.") from error
    return done.stdout


def _make_way(folder: Path) -> None:
    """Make a folder and what is missing above it, for everybody to pass through: root's umask may say otherwise."""
    for missing in reversed([place for place in (folder, *folder.parents) if not place.exists()]):
        missing.mkdir()
        missing.chmod(0o755)


def hindrances(config: Path, folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What the service's user may not do with its configuration and with the folders that are there, and the command
    that lets it.

    Raises:
        InboxdError: it can't be tried.
    """
    for paths, wish, words, grant in (
        (_above([str(config), *folders]), "x", "pass through", f"-m u:{USER}:x"),
        ([str(config)], "r", "read", f"-m u:{USER}:r"),
        (folders, "rwx", "read and write in", f"-R -m u:{USER}:rwX -m d:u:{USER}:rwX"),
    ):
        for path in _refused(paths, wish):
            yield f"the user {USER} may not {words} {shown(path)}", f"setfacl {grant} {shown(path)}"


def _above(paths: Iterable[str]) -> list[str]:
    """Every folder on the way to these, but for homes: the service gets what it needs of them without the way."""
    ways = [way for path in paths if not unit.is_hidden(path) for way in (path, os.path.realpath(path))]
    return list(dict.fromkeys(str(parent) for way in ways for parent in reversed(Path(way).parents)))


def _refused(paths: Iterable[str], wish: str) -> list[str]:
    """Those that are there and where the service's user may not do all of `wish`, letters of `test`.

    We, as root, open them: that user could not even see what lies below a folder that is closed to it.
    """
    with ExitStack() as stack:
        opened: dict[str, str] = {}
        for path in paths:
            with suppress(OSError):  # it is not there
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
                stack.callback(os.close, descriptor)
                opened[str(descriptor)] = path
        tests = " && ".join(f'[ -{letter} "/proc/self/fd/$f" ]' for letter in wish)
        try_it = f'for f; do {{ {tests}; }} || echo "$f"; done'
        as_user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "--", "sh", "-c", try_it, "sh")
        said = tell(*as_user, *opened, descriptors=[*map(int, opened)])
    return [opened[descriptor] for descriptor in said.split()]


def folders_of(settings: configuration.Settings) -> list[str]:
    """Every folder in which the configuration has the daemon write, but for its state."""
    named = [(inbox.path, inbox.output_dir, inbox.archive_dir) for inbox in settings.inbox]
    return [os.path.normpath(path) for paths in named for path in paths if path is not None]


def _written(settings: configuration.Settings, default_state: str) -> list[str]:
    state = os.path.normpath(settings.state)
    return folders_of(settings) + ([] if state == default_state else [state])
