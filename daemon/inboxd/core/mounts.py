"""Which mount a path lies on, and whether other machines may change it behind our kernel's back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_REMOTE = re.compile(
    r"cifs|smb\d?|smbfs|nfs\d*|fuse|fuse\..*|9p|virtiofs|ceph|afs|coda|lustre|gfs2|ocfs2|vboxsf|prl_fs|vmhgfs"
)
# Where a file keeps its inode number for as long as it lives; FUSE and FAT hand out numbers as they go.
_LASTING_INODES = re.compile(
    r"ext\d|xfs|btrfs|bcachefs|f2fs|jfs|reiserfs|zfs|ntfs3|tmpfs|ramfs|overlay|nfs\d*|ceph|lustre|gfs2|ocfs2"
)
_LAYERS = re.compile(rb"(?:^|,)(?:lowerdir\+?|upperdir|datadir\+?)=((?:\\.|[^,\\])*)")
_ESCAPE = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of `/proc/self/mountinfo`."""

    point: bytes
    fstype: str
    device: str = "0:0"  # major:minor; major 0 is a number made up at mounting
    options: bytes = b""  # of the filesystem itself
    number: int = 0  # by which the kernel tells it from every other mount while it lasts

    @property
    def is_remote(self) -> bool:
        """Whether events can be missed and locks can't be trusted here: networks, and FUSE, which may be one."""
        return _REMOTE.fullmatch(self.fstype) is not None

    @property
    def keeps_inodes(self) -> bool:
        """Whether an inode number tells a file from another over time."""
        return _LASTING_INODES.fullmatch(self.fstype) is not None

    @property
    def layers(self) -> list[bytes]:
        """The folders that an overlay is made of."""
        if self.fstype != "overlay":
            return []
        joined = (match[1] for match in _LAYERS.finditer(self.options))
        return [layer.replace(b"\\", b"") for some in joined for layer in re.split(rb"(?<!\\):+", some) if layer]


def parse(mountinfo: bytes) -> list[Mount]:
    """The mounts in `/proc/self/mountinfo`, in its order; where two share a point, the later one hides the earlier."""
    mounts = []
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(b" - ")
        fields = before.split(b" ")
        if separator and len(fields) > 4:
            fstype, _source, *options = after.split(b" ", 2)
            point, device = _plain(fields[4]), fields[2].decode()
            mounts.append(Mount(point, fstype.decode(), device, _plain(b"".join(options)), int(fields[0])))
    return mounts


def _plain(escaped: bytes) -> bytes:
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), escaped)


def mount_of(path: bytes, mounts: Sequence[Mount]) -> Mount | None:
    """The mount that an absolute path, free of symbolic links, lies on; None where the table does not say."""
    found: Mount | None = None
    for mount in mounts:
        inside = path == mount.point or path.startswith(mount.point.rstrip(b"/") + b"/")
        if inside and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def below(path: bytes, mounts: Sequence[Mount]) -> list[Mount]:
    """The mounts that lie inside the folder `path`."""
    return [mount for mount in mounts if mount.point.startswith(path.rstrip(b"/") + b"/")]


def remote_part(mount: Mount, mounts: Sequence[Mount]) -> Mount | None:
    """The mount through which other machines may change what lies on `mount`: itself, or one under an overlay."""
    if mount.is_remote:
        return mount
    grounds = (mount_of(layer, mounts) for layer in mount.layers)
    return next((ground for ground in grounds if ground is not None and ground.is_remote), None)
