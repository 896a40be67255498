"""How each folder of an inbox is watched, and why: by events where the kernel sees every change, else by polling."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from inboxd.core.mounts import Mount, below, mount_of, parse, remote_part
from inboxd.core.naming import display

MOUNTINFO = Path("/proc/self/mountinfo")
NOWHERE = Mount(b"/", "unknown")


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


def plan(inbox: bytes, watch: Literal["auto", "events", "poll"]) -> Plan:
    """How to watch the folder at the absolute path `inbox`. Reads mountinfo, and resolves links in `inbox`.

    Raises:
        OSError: mountinfo can't be read.
    """
    real = os.path.realpath(inbox)
    mounts = parse(MOUNTINFO.read_bytes())
    own = mount_of(real, mounts) or NOWHERE
    inside = {mount.point[len(real.rstrip(b"/")) + 1 :]: mount for mount in below(real, mounts)}
    return Plan(_site(own, mounts, watch), {where: _site(mount, mounts, watch) for where, mount in inside.items()})


def _site(mount: Mount, mounts: list[Mount], watch: Literal["auto", "events", "poll"]) -> Site:
    if watch == "poll":
        return Site(mount, True, f"{mount.fstype}: as configured")
    remote = remote_part(mount, mounts)
    if watch == "events":
        return Site(mount, False, f"{mount.fstype}: as configured")
    if remote is None:
        return Site(mount, False, mount.fstype)
    kind = mount.fstype if remote is mount else f"{mount.fstype} on {remote.fstype}"
    return Site(mount, True, f"{kind}: changes made elsewhere give no events")
