from __future__ import annotations

import os
from pathlib import Path

import pytest

from inboxd.core.mounts import Mount, mount_of, parse, remote_part
from inboxd.rooms import mounts
from inboxd.rooms.folders import Folder
from inboxd.rooms.mounts import Plan, Watch, plan

TABLE = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / {home}/nas rw shared:7 master:3 - cifs //nas/scans rw,vers=3.1.1
31 22 254:1 / {home}/local rw - xfs /dev/vdb rw
32 31 0:26 / {home}/local/a\040share rw - fuse.sshfs scan@host:/ rw
33 22 0:27 / {home}/layered rw - overlay overlay rw,lowerdir={home}/nas/x:/usr,upperdir=/var/u,workdir=/var/w
34 22 0:28 / {home}/layers rw - overlay overlay rw,lowerdir=/usr,upperdir=/var/u,workdir=/var/w
35 22 8:1 / {home}/stick rw - vfat /dev/sda1 rw
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("nas/deep/er", "local/a share", "layered", "layers", "stick", "plain"):
        (tmp_path / name).mkdir(parents=True)
    table = tmp_path / "mountinfo"
    table.write_text(TABLE.format(home=tmp_path))
    monkeypatch.setattr(mounts, "MOUNTINFO", table)

    def mount_id(fd: int) -> int:
        path = os.readlink(b"/proc/self/fd/%d" % fd)  # noqa: PTH115 - bytes
        mount = mount_of(path, parse(table.read_bytes()))
        assert mount is not None
        return mount.number

    monkeypatch.setattr(mounts, "mount_id", mount_id)
    return tmp_path


def planned(folder: Path, watch: Watch = "auto") -> Plan:
    with Folder.open(os.fsencode(folder)) as root:
        return plan(root, watch)


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("plain", "events (ext4)"),
        ("nas", "polling every 5 s (cifs: changes made elsewhere give no events)"),
        ("nas/deep/er", "polling every 5 s (cifs: changes made elsewhere give no events)"),
        ("local", "events (xfs); a share: polling every 5 s (fuse.sshfs: changes made elsewhere give no events)"),
        ("layered", "polling every 5 s (overlay on cifs: changes made elsewhere give no events)"),
        ("layers", "events (overlay)"),
        ("stick", "events (vfat)"),
    ],
)
def test_how_a_folder_is_watched_is_told_with_the_reason(home: Path, folder: str, said: str) -> None:
    assert planned(home / folder).describe(5.0) == said


def test_a_mount_inside_an_inbox_is_watched_its_own_way(home: Path) -> None:
    chosen = planned(home / "local")
    assert not chosen.at(b"").polled
    assert not chosen.at(b"a shareholder").polled
    assert chosen.at(b"a share").polled
    assert chosen.at(b"a share/deep/er").polled


def test_links_on_the_way_to_an_inbox_are_resolved(home: Path) -> None:
    (home / "link").symlink_to(home / "nas")
    assert planned(home / "link").at(b"").polled


def test_the_configuration_has_the_last_word(home: Path) -> None:
    assert planned(home / "nas", "events").describe(5.0) == "events (cifs: as configured)"
    assert planned(home / "plain", "poll").describe(2.0) == "polling every 2 s (ext4: as configured)"


def test_events_that_fail_are_told_too(home: Path) -> None:
    said = planned(home / "local").describe(5.0, "inotify's watch limit is reached")
    assert said.startswith("polling every 5 s (inotify's watch limit is reached); a share: polling every 5 s (fuse")


def test_a_place_is_the_same_after_a_restart_and_another_where_the_mount_is_gone(home: Path) -> None:
    place = planned(home / "nas").site.place
    assert place == f"cifs {home}/nas"
    assert planned(home / "local").site.place == f"254:1 {home}/local"
    table = mounts.MOUNTINFO
    table.write_text("\n".join(line for line in table.read_text().splitlines() if "cifs" not in line))
    assert planned(home / "nas").site.place == "254:0 /"


def test_inode_numbers_that_are_made_up_are_not_trusted(home: Path) -> None:
    for folder, keeps in (("plain", True), ("local", True), ("nas", False), ("stick", False), ("layers", True)):
        assert planned(home / folder).at(b"").mount.keeps_inodes is keeps


def test_layers_of_an_overlay() -> None:
    line = rb"33 22 0:27 / /m rw - overlay overlay rw,lowerdir=/a\040b:/c\134:d,upperdir=/u,workdir=/w"
    (mount,) = parse(line)
    assert mount.layers == [b"/a b", b"/c:d", b"/u"]
    assert remote_part(mount, [Mount(b"/", "ext4"), Mount(b"/u", "nfs4")]) == Mount(b"/u", "nfs4")
    assert remote_part(mount, [Mount(b"/", "ext4")]) is None


def test_this_machine(tmp_path: Path) -> None:
    real = os.path.realpath(tmp_path)
    mount = mount_of(os.fsencode(real), parse(Path("/proc/self/mountinfo").read_bytes()))
    assert mount is not None
    assert mount.fstype in planned(tmp_path).describe(5.0)


def test_a_mount_that_went_between_opening_and_asking(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "mount_id", lambda _: 4711)
    with pytest.raises(OSError, match="unmounted a moment ago"):
        planned(home / "nas")
