"""rsync into an inbox: its temporary names and old times, writing in place, and a transfer that is cut and resumed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.process.daemon import Daemon, running
from tests.shares.servers import program, rsyncd
from tests.shares.uploads import FILES, all_came_once_and_whole, content, placed

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("rsync")]


@pytest.fixture(scope="module")
def inbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, str]]:
    root, home = tmp_path_factory.mktemp("daemon"), tmp_path_factory.mktemp("rsync")
    (root / "inbox").mkdir()
    with rsyncd(home, root / "inbox") as address, running(root) as daemon:
        yield daemon, address


WAYS = [
    "--archive",  # under .NAME.Ab12Cd, renamed, with the old time
    "--archive --bwlimit=300",
    "--archive --delay-updates",  # in .~tmp~, all renamed at the end
    "--inplace --bwlimit=300",
]


@pytest.mark.parametrize("way", WAYS)
def test_copies_come_once_and_whole(inbox: tuple[Daemon, str], tmp_path: Path, way: str) -> None:
    daemon, address = inbox
    contents = {f"{way} {kind}": content(kind, 10 + WAYS.index(way)) for kind in FILES}
    files = placed(tmp_path / "client", contents)
    subprocess.run([program("rsync"), *way.split(), "--", *files, address], check=True, capture_output=True)
    all_came_once_and_whole(daemon, contents)


def test_a_transfer_that_is_cut_and_resumed(inbox: tuple[Daemon, str], tmp_path: Path) -> None:
    daemon, address = inbox
    contents = {"resumed page.png": content("page.png", 1), "resumed photo.jpg": content("photo.jpg", 1)}
    files = placed(tmp_path / "client", contents)
    command = [program("rsync"), "--archive", "--partial-dir=.rsync-partial"]
    with subprocess.Popen([*command, "--bwlimit=50", *files, address], stderr=subprocess.DEVNULL) as cut:
        daemon.wait(lambda: any(daemon.inbox.glob(".resumed*")))
        cut.terminate()
    subprocess.run([*command, *files, address], check=True, capture_output=True)
    all_came_once_and_whole(daemon, contents)
