"""A machine in trouble round a real daemon: what can't be done waits and says why, what can is done, and all heals."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.process.daemon import INBOXD, PATIENCE_S, Daemon, litter, output, running
from tests.process.test_files_in_motion import drain, made, tree, with_outputs

pytestmark = pytest.mark.slow

CONFINED = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner"]
"""Root obeys permissions without these."""


def reason(daemon: Daemon, name: str) -> str:
    return str((daemon.sql("SELECT reason FROM v_files WHERE name = ?", (name,)) or [("",)])[0][0])


def said(daemon: Daemon, words: str) -> int:
    """Lines of the log that have these words."""
    return sum(words in line for path in daemon.root.glob("*.log") for line in path.read_text().splitlines())


class Wrapped(Daemon):
    """A daemon that is started by other commands, which confine it."""

    def __init__(self, root: Path, before: Sequence[str], **settings: str) -> None:
        super().__init__(root, **settings)
        self._before = before

    def start(self, *options: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        with (self.root / "life-1.log").open("wb") as out:
            self.process = subprocess.Popen(
                [*self._before, *INBOXD, "run", "--config", str(self.config), *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(env or {})},
            )
        return self.process


@pytest.fixture
def wrapped(tmp_path: Path) -> Iterator[Callable[..., Wrapped]]:
    """Starts daemons inside other commands; they are gone afterwards. Skips where the commands don't work."""
    started: list[Wrapped] = []

    def start(before: Sequence[str], **settings: str) -> Wrapped:
        if shutil.which(before[0]) is None:
            pytest.skip(f"needs {before[0]}")
        tried = subprocess.run([*before, "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            pytest.skip(f"{before[0]} can't be used here: {tried.stderr.strip()}")
        daemon = Wrapped(tmp_path, before, **settings)
        started.append(daemon)
        return daemon

    yield start
    for daemon in started:
        if daemon.process is not None and daemon.process.poll() is None:
            os.killpg(daemon.process.pid, signal.SIGKILL)
            daemon.process.wait(60)


def test_a_ledger_that_somebody_locks(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        made(daemon.inbox / "first.pdf", 1)
        daemon.wait_for(first__pdf="done")
        somebody = sqlite3.connect(daemon.state / "ledger.sqlite", isolation_level=None, timeout=60)
        somebody.execute("BEGIN IMMEDIATE")
        for number in range(20):
            made(daemon.inbox / f"{number}.pdf", 1)
        daemon.wait(lambda: said(daemon, 'event="ledger waits"') == 1)
        status = subprocess.run(
            [*INBOXD, "status", "--once", "--config", daemon.config], capture_output=True, text=True, check=False
        )
        assert "done" in status.stdout, status.stderr
        somebody.execute("ROLLBACK")
        somebody.close()
        daemon.wait(lambda: [*daemon.states().values()] == ["done"] * 21)
        assert daemon.sql("SELECT count(*), sum(attempts) FROM pages") == [(21, 21)]
        assert said(daemon, 'event="ledger waits"') == said(daemon, 'event="ledger goes on"') == 1
        assert "Traceback" not in daemon.log()


def test_a_ledger_that_is_removed_under_it(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        made(daemon.inbox / "first.pdf", 1)
        daemon.wait_for(first__pdf="done")
        before = output(daemon.inbox / "first.pdf")
        for path in daemon.state.glob("ledger.sqlite*"):
            path.unlink(missing_ok=True)  # a daemon that has noticed ends, and removes some itself
        made(daemon.inbox / "second.pdf", 1)
        assert daemon.process is not None
        assert daemon.process.wait(120) == 70, daemon.log()
        assert said(daemon, "was removed or replaced while it was in use") == 1
        assert "backup" in daemon.log()
        assert daemon.drain() == 0, daemon.log()
        assert daemon.states() == {"first.pdf": "done", "second.pdf": "done"}
        assert tree(daemon.inbox) == with_outputs("first.pdf", "second.pdf")
        assert output(daemon.inbox / "first.pdf")["sha256"] == before["sha256"]


def test_a_clock_that_jumps(tmp_path: Path) -> None:
    libraries = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), *Path("/usr/lib64/faketime").glob("*MT.so.1")]
    if not libraries:
        pytest.skip("needs faketime")
    clock = tmp_path / "clock"
    clock.write_text("+0")
    daemon = Daemon(tmp_path)
    daemon.start(
        env={
            "LD_PRELOAD": str(libraries[0]), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1", "TZ": "Europe/Berlin",
        }
    )  # fmt: skip
    try:
        for number, jump in enumerate(("+0", "+3h", "-3h")):
            (tmp_path / "next").write_text(jump)
            (tmp_path / "next").rename(clock)
            made(daemon.inbox / f"{number}.pdf", 1)
            daemon.wait_for(**{f"{number}__pdf": "done"})
        seen = dict(daemon.sql("SELECT name, first_seen FROM v_files"))
        assert seen["1.pdf"] > seen["0.pdf"] > seen["2.pdf"], "the clock did not jump"
        assert daemon.sql("SELECT sum(attempts), count(*) FROM pages") == [(3, 3)]
        assert subprocess.run([*INBOXD, "recycle", "--config", daemon.config], check=False).returncode == 0
        assert daemon.process is not None
        assert daemon.process.wait(PATIENCE_S) == 75, "what it does by the clock waits for the clock"
    finally:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes capabilities away, which root has")
def test_files_and_folders_without_permission(wrapped: Callable[..., Wrapped], tmp_path: Path) -> None:
    daemon = wrapped(CONFINED, inbox="max_settle = 600")
    shut, open_, closed = daemon.inbox / "shut", daemon.inbox / "open", daemon.inbox / "closed"
    for folder in (shut, open_, closed):
        folder.mkdir()
    made(daemon.inbox / "unreadable.pdf", 1).chmod(0)
    made(shut / "nowhere to write.pdf", 1)
    made(closed / "not listed.pdf", 1)
    made(open_ / "good.pdf", 1).chmod(0o640)
    shut.chmod(0o555)
    closed.chmod(0)
    daemon.start()
    daemon.wait_for(good__pdf="done")
    daemon.wait(lambda: "no permission to read it" in reason(daemon, "unreadable.pdf"))
    daemon.wait(lambda: said(daemon, "no permission to write in") == 1)
    assert daemon.states()["unreadable.pdf"] == "settling"
    assert (open_ / "good.pdf.md").stat().st_mode & 0o777 == 0o640
    (daemon.inbox / "unreadable.pdf").chmod(0o600)
    shut.chmod(0o755)
    closed.chmod(0o755)
    daemon.wait(lambda: [*daemon.states().values()] == ["done"] * 4)
    assert daemon.sql("SELECT sum(attempts) FROM pages") == [(4,)], "what could not be delivered is not read again"
    assert said(daemon, "no permission to read it") == said(daemon, "no permission to write in") == 1
    assert tree(daemon.inbox) == with_outputs(
        "unreadable.pdf", "shut/nowhere to write.pdf", "open/good.pdf", "closed/not listed.pdf"
    )


def test_an_output_folder_on_a_full_disk_holds_up_nobody_else(wrapped: Callable[..., Wrapped], tmp_path: Path) -> None:
    full, room = tmp_path / "full", tmp_path / "room"
    full.mkdir()
    room.mkdir()
    second = tmp_path / "second"
    second.mkdir()
    script = f'mount -t tmpfs -o size=16k small "{full}" && exec "$@"'
    daemon = wrapped(
        ["unshare", "--mount", "sh", "-c", script, "sh"],
        inbox=f'output_dir = "{full}"\n[[inbox]]\npath = "{second}"\nsettle = 0.2\noutput_dir = "{room}"',
    )
    made(daemon.inbox / "long.pdf", 300)
    daemon.start()
    daemon.wait(lambda: said(daemon, "is left in") == 1)
    made(second / "good.pdf", 1)
    daemon.wait_for(good__pdf="done")
    assert daemon.process is not None
    inside = ["nsenter", "--mount", f"--target={daemon.process.pid}"]

    def listed() -> list[str]:
        return subprocess.run([*inside, "ls", "-A", full], capture_output=True, text=True, check=True).stdout.split()

    daemon.wait(lambda: listed() == [])  # nothing half-written stays, longer than another try takes
    subprocess.run([*inside, "mount", "-o", "remount,size=16m", full], check=True)
    daemon.wait_for(long__pdf="done")
    assert listed() == ["long.pdf.json", "long.pdf.md"]
    assert daemon.sql("SELECT max(attempts) FROM pages") == [(1,)]


@pytest.mark.parametrize("point", ["owed", "held", "shut"])
def test_a_daemon_that_is_killed_while_outputs_cannot_be_written_writes_them_later(tmp_path: Path, point: str) -> None:
    share = tmp_path / "share"
    share.mkdir()  # empty: what should be mounted on it is not
    daemon = Daemon(tmp_path, inbox=f'output_dir = "{share}/texts"')
    names = [f"{folder}/{folder}{number}.pdf" for folder in ("a", "b") for number in range(5)]
    for name in names:
        made(daemon.inbox / name, 2)
    assert daemon.drain(env={"INBOXD_FAULT": f"assembly.{point}"}) == -signal.SIGKILL, daemon.log()
    assert "done" not in daemon.states().values()
    (share / "texts").mkdir()
    drain(daemon)
    assert [*daemon.states().values()] == ["done"] * len(names)
    assert tree(share / "texts") == with_outputs(*names) - set(names)
    assert litter(share) == []
    assert daemon.sql("SELECT max(deaths) FROM pages") == [(0,)]


def test_no_folder_for_temporary_files(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    made(daemon.inbox / "a.pdf", 2)
    assert daemon.drain(env={"TMPDIR": str(tmp_path / "nowhere")}) == 0, daemon.log()
    assert daemon.states() == {"a.pdf": "done"}


def test_few_descriptors_for_many_files(wrapped: Callable[..., Wrapped]) -> None:
    daemon = wrapped(["prlimit", "--nofile=64:64"], more="[render]\nworkers = 1")
    for number in range(200):
        path = daemon.inbox / f"{number % 10}" / f"{number}.pdf"
        made(path, 1)
        if number % 4 == 0:
            path.write_bytes(b"%%PDF-1.7\nnothing of a document %d\nstartxref\n0\n%%%%EOF\n" % number)
    process = daemon.start()
    daemon.wait(lambda: [*daemon.states().values()].count("done") == 150)
    daemon.wait(lambda: [*daemon.states().values()].count("quarantined") == 50)
    held = len(os.listdir(f"/proc/{process.pid}/fd"))
    for number in range(200, 240):
        made(daemon.inbox / f"{number}.pdf", 1)
    daemon.wait(lambda: [*daemon.states().values()].count("done") == 190)
    daemon.wait(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) <= held + 5)


@pytest.mark.parametrize(
    ("limit", "words"),
    [("max_inotify_watches", "max_user_watches"), ("max_inotify_instances", "max_user_instances")],
)
def test_inotify_s_limits(wrapped: Callable[..., Wrapped], limit: str, words: str) -> None:
    allowed = 3 if limit == "max_inotify_watches" else 0
    script = f'echo {allowed} > /proc/sys/user/{limit} && exec "$@"'
    daemon = wrapped(["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"], inbox="poll_interval = 0.5")
    for number in range(10):
        made(daemon.inbox / str(number) / f"{number}.pdf", 1)
    daemon.start()
    daemon.wait(lambda: [*daemon.states().values()] == ["done"] * 10)
    daemon.wait(lambda: "polling" in daemon.sql("SELECT watching FROM inboxes")[0][0])
    assert words in daemon.sql("SELECT watching FROM inboxes")[0][0], "the setting is named, not the disk"
    for number in range(10):
        made(daemon.inbox / str(number) / f"late {number}.pdf", 1)
    daemon.wait(lambda: [*daemon.states().values()] == ["done"] * 20)


def test_an_inbox_that_is_no_longer_configured(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    made(daemon.inbox / "old.pdf", 2)
    (tmp_path / "new").mkdir()
    drain(daemon)
    whole = made(tmp_path / "whole.pdf", 1).read_bytes()
    (daemon.inbox / "half.pdf").write_bytes(whole[: len(whole) // 2])
    daemon.start()
    daemon.wait_for(half__pdf="settling")
    assert daemon.kill(signal.SIGTERM) == 0
    before = daemon.config.read_text()
    daemon.config.write_text(before.replace(str(daemon.inbox), str(tmp_path / "new")))
    made(daemon.inbox / "unseen.pdf", 1)
    made(tmp_path / "new" / "new.pdf", 1)
    drain(daemon)
    assert daemon.states() == {"old.pdf": "done", "half.pdf": "vanished", "new.pdf": "done"}
    assert reason(daemon, "half.pdf") == "its inbox is not configured any more"
    shown = subprocess.run(
        [*INBOXD, "show", "--config", daemon.config, daemon.inbox / "old.pdf"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "2" in shown.stdout
    daemon.config.write_text(before)
    (daemon.inbox / "half.pdf").write_bytes(whole)
    drain(daemon)
    for name in ("half.pdf", "unseen.pdf"):
        assert daemon.sql("SELECT state FROM v_files WHERE name = ? AND current = 1", (name,)) == [("done",)]


def test_bad_files_never_stop_the_watch(tmp_path: Path) -> None:
    with running(tmp_path, inbox="max_settle = 0.5") as daemon:
        for turn in range(20):
            (daemon.inbox / f"broken {turn}.pdf").write_bytes(b"%%PDF-1.7\nno %d\nstartxref\n0\n%%%%EOF\n" % turn)
            (daemon.inbox / f"empty {turn}.pdf").touch()
            (daemon.inbox / f"gone {turn}.pdf").touch()
            (daemon.inbox / f"gone {turn}.pdf").unlink()
            made(daemon.inbox / f"good {turn}.pdf", 1)
        daemon.wait(lambda: [*daemon.states().values()].count("done") == 20)
        daemon.wait(lambda: [*daemon.states().values()].count("quarantined") == 40)
        assert output(daemon.inbox / "good 19.pdf")["pages"]
        assert not litter(daemon.inbox)
