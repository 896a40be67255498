"""How each folder of an inbox is watched, and why: by events where the kernel sees every change, else by polling."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from inboxd.core.mounts import Mount, below, parse, remote_part
from inboxd.core.naming import display
from inboxd.rooms.folders import Folder

MOUNTINFO = Path("/proc/self/mountinfo")
Watch = Literal["auto", "events", "poll"]


@dataclass(frozen=True, slots=True)
class Site:
    """What a folder stands on."""

    mount: Mount
    polled: bool
    why: str

    @property
    def place(self) -> str:
        """Names this mount and no other, also after a restart; a device number made up at mounting tells nothing."""
        device = self.mount.fstype if self.mount.device.startswith("0:") else self.mount.device
        return f"{device} {display(self.mount.point)}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The site of an inbox, and of the mounts inside it by their path below the inbox."""

    site: Site
    inside: dict[bytes, Site]

    @property
    def polls_anything(self) -> bool:
        return self.site.polled or any(site.polled for site in self.inside.values())

    def at(self, folder: bytes) -> Site:
        """The site of a folder below the inbox (`b""` is the inbox itself)."""
        best = b""
        for mounted in self.inside:
            if (folder == mounted or folder.startswith(mounted + b"/")) and len(mounted) > len(best):
                best = mounted
        return self.inside[best] if best else self.site

    def describe(self, poll_interval: float, unwatched: str = "") -> str:
        """For a person: 'events (ext4); nas: polling every 5 s (cifs: …)'.

        `unwatched` says why there are no events where there should be.
        """

        def told(site: Site) -> str:
            if site.polled or unwatched:
                return f"polling every {poll_interval:g} s ({site.why if site.polled else unwatched})"
            return f"events ({site.why})"

        parts = [told(self.site)]
        parts += [
            f"{display(mounted)}: {told(site)}"
            for mounted, site in sorted(self.inside.items())
            if told(site) != parts[0]
        ]
        return "; ".join(parts)


def plan(root: Folder, watch: Watch) -> Plan:
    """How to watch the open folder `root`.

    Goes by the descriptor: what the path leads to may be mounted or unmounted at any moment.

    Raises:
        OSError: ENODEV where the folder's mount is gone by now.
    """
    number = mount_id(root.fd)
    mounts = _parsed(MOUNTINFO.read_bytes())
    own = next((mount for mount in mounts if mount.number == number), None)
    if own is None:
        raise OSError(errno.ENODEV, "it was unmounted a moment ago")
    path = os.readlink(b"/proc/self/fd/%d" % root.fd).rstrip(b"/")  # noqa: PTH115 - bytes
    inside = {mount.point[len(path) + 1 :]: mount for mount in below(path, mounts)}
    sites = {where: _site(mount, mounts, watch) for where, mount in inside.items()}
    return Plan(_site(own, mounts, watch), sites)


def mount_id(fd: int) -> int:
    """The number of the mount that an open file lies on."""
    return int(Path(f"/proc/self/fdinfo/{fd}").read_text().partition("mnt_id:")[2].split()[0])


@lru_cache(maxsize=1)
def _parsed(mountinfo: bytes) -> tuple[Mount, ...]:
    """It is read at every scan, and hardly ever changes."""
    return tuple(parse(mountinfo))


def _site(mount: Mount, mounts: Sequence[Mount], watch: Watch) -> Site:
    if watch == "poll":
        return Site(mount, True, f"{mount.fstype}: as configured")
    remote = remote_part(mount, mounts)
    if watch == "events":
        return Site(mount, False, f"{mount.fstype}: as configured")
    if remote is None:
        return Site(mount, False, mount.fstype)
    kind = mount.fstype if remote is mount else f"{mount.fstype} on {remote.fstype}"
    return Site(mount, True, f"{kind}: changes made elsewhere give no events")
