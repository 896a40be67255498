"""A share whose changes made elsewhere give no events, which is slow, and which goes away and comes back (bindfs)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.process.daemon import Daemon, running
from tests.process.test_files_in_motion import made, tree, with_outputs
from tests.shares.servers import program

pytestmark = pytest.mark.slow


@contextmanager
def bindfs(server: Path, share: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """`server` mounted at `share`, as a network mount is: what is written into `server` gives no event at `share`."""
    server.mkdir(exist_ok=True)
    share.mkdir(exist_ok=True)
    command = [program("bindfs"), "-f", "--no-allow-other", *options, str(server), str(share)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as mounted:
        try:
            while mounted.poll() is None and not os.path.ismount(share):
                time.sleep(0.01)
            if mounted.returncode is not None:
                pytest.skip("bindfs can't mount here")
            yield mounted
        finally:
            subprocess.run([program("fusermount3"), "-u", "-z", share], capture_output=True, check=False)
            mounted.kill()


def test_what_is_written_elsewhere_is_found_by_polling(tmp_path: Path) -> None:
    server = tmp_path / "server"
    with bindfs(server, tmp_path / "inbox"), running(tmp_path, inbox="poll_interval = 0.5") as daemon:
        told = "SELECT watching FROM inboxes WHERE state = 'watching'"
        daemon.wait(lambda: daemon.sql(told) not in ([], [("",)]))
        ((how,),) = daemon.sql(told)
        assert how.startswith("polling every 0.5 s (fuse")
        daemon.wait(lambda: how in daemon.log())
        for number in range(3):
            made(server / "sub" / f"{number}.pdf", 1)
            daemon.wait_for(**{f"{number}__pdf": "done"})
        assert tree(server) == with_outputs(*(f"sub/{number}.pdf" for number in range(3)))


def test_a_slow_share_holds_no_other_inbox_up(tmp_path: Path) -> None:
    quick = tmp_path / "quick"
    quick.mkdir()
    more = f'poll_interval = 0.5\n[[inbox]]\npath = "{quick}"\nsettle = 0.2'
    server = tmp_path / "server"
    server.mkdir()
    made(server / "slow.pdf", 1)
    with (server / "slow.pdf").open("ab") as file:
        file.write(b"\n%" + b"x" * 400_000 + (server / "slow.pdf").read_bytes()[-200:])
    with bindfs(server, tmp_path / "inbox", "--read-rate=50k") as share, running(tmp_path, inbox=more) as daemon:
        daemon.wait_for(slow__pdf="settling")
        share.send_signal(signal.SIGSTOP)  # however long the others take, they are done first
        for number in range(5):
            made(quick / f"{number}.pdf", 1)
            daemon.wait_for(**{f"{number}__pdf": "done"})
        assert daemon.states()["slow.pdf"] == "settling", "the share is not slow enough for this test"
        share.send_signal(signal.SIGCONT)
        daemon.wait_for(slow__pdf="done")


def test_a_share_that_goes_away_and_comes_back(tmp_path: Path) -> None:
    server, share = tmp_path / "server", tmp_path / "inbox"
    with bindfs(server, share) as first, running(tmp_path, inbox="poll_interval = 0.5\nmax_settle = 600") as daemon:
        made(server / "done.pdf", 1)
        (server / "waiting.pdf").write_bytes(made(tmp_path / "whole", 1).read_bytes()[:-100])
        daemon.wait_for(done__pdf="done", waiting__pdf="settling")
        first.kill()
        first.wait()
        daemon.wait(lambda: unavailable(daemon))
        subprocess.run([program("fusermount3"), "-u", "-z", share], check=True)
        daemon.wait(lambda: "mounted?" in daemon.sql("SELECT reason FROM inboxes")[0][0])
        assert os.listdir(share) == [], "nothing is written into the bare mount point"
        assert daemon.states() == {"done.pdf": "done", "waiting.pdf": "settling"}
        (server / "waiting.pdf").write_bytes((tmp_path / "whole").read_bytes())
        made(server / "meanwhile.pdf", 1)
        with bindfs(server, share):
            daemon.wait_for(waiting__pdf="done", meanwhile__pdf="done")
            made(server / "later.pdf", 1)
            daemon.wait_for(later__pdf="done")
            assert daemon.sql("SELECT count(*), sum(attempts) FROM pages") == [(4, 4)]
            assert daemon.kill(15) == 0


def unavailable(daemon: Daemon) -> bool:
    return daemon.sql("SELECT state FROM inboxes") == [("unavailable",)]
