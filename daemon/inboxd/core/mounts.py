"""Which mount a path lies on, and whether other machines may change it behind our kernel's back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_REMOTE = re.compile(
    r"cifs|smb\d?|smbfs|nfs\d*|fuse|fuse\..*|9p|virtiofs|ceph|afs|coda|lustre|gfs2|ocfs2|vboxsf|prl_fs|vmhgfs"
)
_ESCAPE = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of `/proc/self/mountinfo`."""

    point: bytes
    fstype: str

    @property
    def is_remote(self) -> bool:
        """Whether events can be missed and locks can't be trusted here: network filesystems, and FUSE, which may be one."""
        return _REMOTE.fullmatch(self.fstype) is not None


def parse(mountinfo: bytes) -> list[Mount]:
    """The mounts in `/proc/self/mountinfo`, in its order; where two share a point, the later one hides the earlier."""
    mounts = []
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(b" - ")
        fields = before.split(b" ")
        if separator and len(fields) > 4:
            point = _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), fields[4])
            mounts.append(Mount(point, after.split(b" ", 1)[0].decode()))
    return mounts


def mount_of(path: bytes, mounts: Sequence[Mount]) -> Mount | None:
    """The mount that an absolute path, free of symbolic links, lies on; None where the table does not say."""
    found: Mount | None = None
    for mount in mounts:
        inside = path == mount.point or path.startswith(mount.point.rstrip(b"/") + b"/")
        if inside and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found
