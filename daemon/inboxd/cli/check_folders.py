"""Looks at folders for `inboxd check`: can they be read and written, how full are their disks, how are they watched."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shlex
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from inboxd import config
from inboxd.cli.finding import Finding, Level, NoAnswer, patiently
from inboxd.cli.installation import USER
from inboxd.cli.printing import shown, size
from inboxd.core.naming import PREFIX
from inboxd.rooms import mounts
from inboxd.rooms.folders import Folder

_AS_THE_DAEMON = "Run this as the daemon's user, or give {} the folder."
_PROBE = os.fsdecode(PREFIX) + "check-{}"


def user(config_file: Path) -> Iterator[Finding]:
    """Whether we look with the eyes of the service: root may do what its user may not."""
    try:
        service = pwd.getpwnam(USER)
    except KeyError:  # no service is installed here
        return
    if os.geteuid() != service.pw_uid:
        command = f"sudo -u {USER} inboxd check --config {shlex.quote(str(config_file))}"
        says = f"this looks as {_me()}; the service runs as {USER}, and may be allowed less or more"
        yield Finding(Level.WARN, "user", says, f"For its view: {command}")


def inboxes(settings: config.Settings) -> Iterator[Finding]:
    """Every inbox: what can be done with it, and with where its outputs and originals go."""
    if not settings.inbox:
        yield Finding(Level.FAIL, "inboxes", "no folder is watched", "Add an [[inbox]] with its path.")
    for inbox in settings.inbox:
        folder = Path(inbox.path)
        about = f"inbox {shown(folder)}"
        if (trouble := _unreadable(folder)) is not None:
            yield Finding(Level.FAIL, about, *trouble)
            continue
        yield _watching(about, inbox)
        if inbox.output_dir is None:
            yield from _writable(about, folder, "outputs are kept and delivered once it can be written")
        else:
            yield from _target(f"outputs of {shown(folder)}", Path(inbox.output_dir))
        if inbox.archive_dir is not None:
            yield from _target(f"archive of {shown(folder)}", Path(inbox.archive_dir))


def state(settings: config.Settings) -> Iterator[Finding]:
    """The state folder: there or makeable, writable, with room."""
    folder = settings.state_dir
    about = f"state {shown(folder)}"
    try:
        yield _state(settings, folder, about)
    except OSError as error:
        says = f"cannot be looked at by {_me()} ({error.strerror}); {_owner(folder)}"
        yield Finding(Level.FAIL, about, says, _AS_THE_DAEMON.format(_me()))


def _state(settings: config.Settings, folder: Path, about: str) -> Finding:
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    site = plan(nearest).site
    if site.polled:
        says = f"lies on {site.mount.fstype}, where SQLite's locks can't be trusted"
        return Finding(Level.FAIL, about, says, "Set `state` to a folder on a disk of this machine.")
    if (refusal := _write_refusal(nearest)) is not None:
        return Finding(Level.FAIL, about, refusal, _AS_THE_DAEMON.format(_me()))
    free, need = shutil.disk_usage(nearest).free, settings.intake.min_free_bytes
    if free < need:
        says = f"{size(free)} free, and intake pauses below {size(need)}"
        return Finding(Level.FAIL, about, says, "Make room on that disk, or lower [intake] min_free_bytes.")
    if free < 4 * need:
        says = f"only {size(free)} free; intake pauses below {size(need)}"
        return Finding(Level.WARN, about, says, "Make room on that disk: every file that waits is copied there.")
    made = "can be written" if nearest == folder else "will be made"
    return Finding(Level.OK, about, f"{made}, {size(free)} free")


def plan(folder: Path, watch: mounts.Watch = "auto") -> mounts.Plan:
    """How a folder would be watched, and what it stands on; decided by the very code that the daemon decides with.

    Raises:
        OSError: it can't be opened.
    """
    with Folder.open(os.fsencode(folder)) as root:
        return mounts.plan(root, watch)


def _watching(about: str, inbox: config.Inbox) -> Finding:
    """How changes in an inbox will be noticed."""
    folder = Path(inbox.path)
    says = f"can be read; noticed by {plan(folder, inbox.watch).describe(inbox.poll_interval)}"
    if inbox.watch == "events" and plan(folder).site.polled:
        return Finding(Level.WARN, about, f"{says}, which miss what other machines do there", 'Set watch = "auto".')
    return Finding(Level.OK, about, says)


def _target(about: str, folder: Path) -> Iterator[Finding]:
    trouble = _unreadable(folder)
    if trouble is not None and not os.path.lexists(folder) and _write_refusal(folder.parent) is None:
        yield Finding(Level.OK, about, f"{shown(folder)} will be made")
    elif trouble is not None:
        yield Finding(Level.FAIL, about, f"{shown(folder)} {trouble[0]}", trouble[1])
    else:
        yield from _writable(about, folder, "what belongs there waits until it can be written")


def _writable(about: str, folder: Path, meanwhile: str) -> Iterator[Finding]:
    refusal = _write_refusal(folder)
    if refusal is None:
        yield Finding(Level.OK, about, "can be written")
    else:
        advice = f"Give {_me()} write permission there, or set output_dir to a folder that can be written."
        yield Finding(Level.WARN, about, f"{refusal}: {meanwhile}", advice)


def _unreadable(folder: Path) -> tuple[str, str] | None:
    """What keeps us from listing a folder, and what to do; None where nothing does."""

    def look() -> None:
        with os.scandir(folder) as entries:
            next(entries, None)

    try:
        patiently(look)
    except FileNotFoundError:
        return "does not exist", "Make it, mount the share that holds it, or mend the configuration."
    except NotADirectoryError:
        return "is not a folder", "Name the folder, not a file in it."
    except PermissionError:
        return f"cannot be read by {_me()}; {_owner(folder)}", "Give that user or one of its groups r and x there."
    except NoAnswer as silence:
        return f"gives {silence}", "The share that it is on hangs: is its server up?"
    except OSError as error:
        return f"cannot be read: {error.strerror}", "Is the share mounted and its server up?"
    return None


def _write_refusal(folder: Path) -> str | None:
    """What keeps us from making a file in a folder; asked by doing it, as permission bits lie on shares."""
    probe = folder / _PROBE.format(os.getpid())

    def write() -> None:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        probe.unlink()

    try:
        patiently(write)
    except NoAnswer as silence:
        return f"gives {silence}"
    except OSError as error:
        with contextlib.suppress(OSError):
            probe.unlink()
        return f"cannot be written by {_me()} ({error.strerror}); {_owner(folder)}"
    return None


def _owner(folder: Path) -> str:
    try:
        status = folder.stat()
    except OSError as error:
        return f"its owner is unknown ({error.strerror})"
    return f"it belongs to {_user(status.st_uid)}:{_group(status.st_gid)}, mode {stat.S_IMODE(status.st_mode):04o}"


def _me() -> str:
    return f"user {_user(os.geteuid())}"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
