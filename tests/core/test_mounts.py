from __future__ import annotations

from pathlib import Path

import pytest

from inboxd.core.mounts import Mount, mount_of, parse

TABLE = rb"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /mnt/scans rw shared:7 master:3 - cifs //nas/scans rw,vers=3.1.1
31 30 254:1 / /mnt/scans/local rw - xfs /dev/vdb rw
32 22 0:26 / /mnt/with\040space rw - fuse.bindfs /srv rw
33 22 0:27 / /mnt/twice rw - ext4 /dev/vdc rw
34 33 0:28 / /mnt/twice rw - nfs4 nas:/x rw
"""


@pytest.mark.parametrize(
    ("path", "fstype"),
    [
        (b"/", "ext4"),
        (b"/mnt/scansion/a", "ext4"),
        (b"/mnt/scans", "cifs"),
        (b"/mnt/scans/deep/er", "cifs"),
        (b"/mnt/scans/local/a", "xfs"),
        (b"/mnt/with space/a", "fuse.bindfs"),
        (b"/mnt/twice/a", "nfs4"),
    ],
)
def test_the_deepest_and_latest_mount_counts(path: bytes, fstype: str) -> None:
    mount = mount_of(path, parse(TABLE))
    assert mount is not None and mount.fstype == fstype


@pytest.mark.parametrize("fstype", ["cifs", "smb3", "nfs", "nfs4", "fuse.sshfs", "fuse", "9p", "virtiofs", "ceph"])
def test_remote(fstype: str) -> None:
    assert Mount(b"/", fstype).is_remote


@pytest.mark.parametrize("fstype", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuseblk", "f2fs", "nfsd"])
def test_local(fstype: str) -> None:
    assert not Mount(b"/", fstype).is_remote


def test_this_machine_has_a_root() -> None:
    mount = mount_of(b"/", parse(Path("/proc/self/mountinfo").read_bytes()))
    assert mount is not None and mount.point == b"/"


def test_nothing_known_of_a_path_outside_the_table() -> None:
    assert mount_of(b"/srv", parse(TABLE.splitlines(keepends=True)[1])) is None
