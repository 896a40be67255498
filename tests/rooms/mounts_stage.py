"""Real mounts under an inbox, in a mount namespace of its own: test_inbox_mounts.py runs it under `unshare --mount`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from tests.rooms.intake_stage import Stage
from tests.rooms.test_intake import distinct


def run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True)


async def unmount(stage: Stage, folder: Path) -> None:
    """As soon as it is not busy: a scan under way holds it, and nothing is held between scans."""
    umount = ["umount", folder]
    await stage.until(lambda: subprocess.run(umount, check=False).returncode == 0, "it to be let go")


async def _play(stage: Stage) -> None:
    share, sub = stage.home / "share", stage.inbox / "sub"
    share.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=20m", "share", share)
    run("mount", "--bind", share, stage.inbox)
    sub.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=20m", "sub", sub)
    (stage.inbox / "a.pdf").write_bytes(distinct(1))
    (sub / "b.pdf").write_bytes(distinct(2))
    async with stage.open():
        await stage.becomes("a.pdf", "ready")
        await stage.becomes("b.pdf", "ready")
        await stage.until(lambda: stage.reader.inboxes()[0].watching == "events (tmpfs)", "it to be told")

        await unmount(stage, sub)
        await stage.scanned()
        await stage.scanned()
        assert stage.state("b.pdf") == "ready", "a bare mount point inside the inbox was taken for an emptied folder"

        await unmount(stage, stage.inbox)
        stage.inboxes.rescan(None)
        await stage.until(lambda: stage.reader.inboxes()[0].state == "unavailable", "it to be seen")
        assert "is it mounted?" in stage.reader.inboxes()[0].reason
        assert os.listdir(stage.inbox) == []
        assert stage.state("a.pdf") == "ready"

        (share / "c.pdf").write_bytes(distinct(3))
        run("mount", "--bind", share, stage.inbox)
        await stage.becomes("c.pdf", "ready")
        assert stage.state("a.pdf") == "ready"
        (stage.inbox / "d.pdf").write_bytes(distinct(4))
        await stage.becomes("d.pdf", "ready")


if __name__ == "__main__":
    asyncio.run(_play(Stage(Path(sys.argv[1]), rescan_interval=1.0)))
