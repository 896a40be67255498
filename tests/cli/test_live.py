"""What a person sees on a terminal: a view that follows, tables cut to fit, colours."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.ledger.clerk import Clerk

from inboxd.core.lifecycle import FileState
from inboxd.drain import Progress
from inboxd.ledger import arrivals
from inboxd.ledger.opening import Ledger
from inboxd.ledger.rows import Counts

ROWS, COLUMNS = 40, 70


class Terminal:
    """What stands on the screen of a child that believes to be on one."""

    def __init__(self, child: subprocess.Popen[bytes], master: int) -> None:
        self.child = child
        self.master = master
        self.seen = ""
        self._text = codecs.getincrementaldecoder("utf-8")()  # a chunk may end within a character

    def until(self, text: str) -> str:
        """Read until `text` has appeared."""
        while text not in self.seen:
            self.seen += self._text.decode(os.read(self.master, 65536))
        return self.seen

    def end(self) -> int:
        """Read to the end; the exit code."""
        try:
            while chunk := os.read(self.master, 65536):
                self.seen += self._text.decode(chunk)
        except OSError:  # how Linux tells that the other end is closed
            pass
        return self.child.wait(60)


@contextmanager
def terminal(*arguments: str | Path, **env: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    command = [sys.executable, "-m", "inboxd", *map(str, arguments)]
    environment = {**os.environ, "TERM": "xterm-256color", **env}
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment) as child:
        os.close(slave)
        try:
            yield Terminal(child, master)
        finally:
            os.close(master)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "c.toml"
    file.write_text(f'state = "{tmp_path}/state"\n[[inbox]]\npath = "/srv/scans"\n')
    return file


@pytest.fixture
def clerk(config: Path) -> Iterator[Clerk]:
    with Ledger.open(config.parent / "state" / "ledger.sqlite") as ledger:
        yield Clerk(ledger)


def test_status_follows_until_ctrl_c(config: Path, clerk: Clerk) -> None:
    clerk.open(b"[bold]markup[/bold]\x1b[31m.pdf", 4)
    with terminal("status", "--config", config) as screen:
        screen.until("0/4")
        assert "[bold]markup[/bold]" in screen.seen
        clerk.finish(clerk.claim_pages(1)[0])
        screen.until("1/4")
        screen.child.send_signal(signal.SIGINT)
        assert screen.end() == 0
    assert "Traceback" not in screen.seen


def test_tables_fit_the_terminal(config: Path, clerk: Clerk) -> None:
    clerk.do(arrivals.quarantine, clerk.drop(("扫描" * 40).encode() + b".pdf"), "long reason " * 20)
    with terminal("files", "--config", config, NO_COLOR="1") as screen:
        assert screen.end() == 0
    lines = screen.seen.replace("\r", "").splitlines()
    assert len(lines) == 2
    assert "…" in lines[1]
    assert "\x1b" not in screen.seen
    assert sum(2 if ord(character) > 0x2E80 else 1 for character in lines[1]) <= COLUMNS


def test_files_of_a_long_folder_are_told_apart(config: Path, clerk: Clerk) -> None:
    for name in (b"first.pdf", b"second.pdf"):
        clerk.do(arrivals.quarantine, clerk.drop(b"department of everything/" + name), "encrypted: " + "a reason " * 9)
    with terminal("files", "--config", config, NO_COLOR="1") as screen:
        assert screen.end() == 0
    _, second, first = screen.seen.splitlines()
    assert "g/first.pdf" in first and "/second.pdf" in second
    assert "encrypted: " in first


def test_colour_is_for_terminals(config: Path, clerk: Clerk) -> None:
    clerk.finished(b"a.pdf", text="the purchase order")
    with terminal("search", "order", "--config", config) as screen:
        assert screen.end() == 0
    assert "\x1b[33m" in screen.seen


def test_draining_bars_count_from_where_this_run_began(capsys: pytest.CaptureFixture[str]) -> None:
    from inboxd.cli.bars import draining

    def counts(done: int, ready: int, pages_done: int, pages_open: int) -> Counts:
        files = dict.fromkeys(FileState, 0) | {FileState.DONE: done, FileState.READY: ready}
        return Counts(files, {}, pages_done, pages_open, 0, ready, 0, 0, False)

    with draining() as on_progress:
        on_progress(Progress(counts(100, 4, 900, 0), "reading"))
        on_progress(Progress(counts(103, 1, 930, 10), "reading"))
    shown = capsys.readouterr().err
    assert "3/4" in shown
    assert "30/40" in shown
