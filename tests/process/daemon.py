"""A real daemon in a real process, for tests: start it, wait for what the ledger says, kill it."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE_S = 150.0
"""Only a test that fails waits so long."""
INBOXD = [sys.executable, "-m", "inboxd"]
PLUGIN = Path(__file__).with_name("plugin")
"""A folder of engines for tests, plugged in as anybody's would be."""


def with_plugin(**more: str) -> dict[str, str]:
    """Variables for a life that finds the engines of PLUGIN."""
    path = [str(PLUGIN), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(path), **more}


class Daemon:
    """One instance: a configuration, a state folder and inboxes below `root`; started and killed at will."""

    def __init__(self, root: Path, engine: str = "null", inbox: str = "", more: str = "") -> None:
        self.root = root
        self.inbox = root / "inbox"
        self.state = root / "state"
        self.config = root / "inboxd.toml"
        self.inbox.mkdir(parents=True, exist_ok=True)
        self.config.write_text(
            f'state = "{self.state}"\n{more}\n[engine]\nname = "{engine}"\n'
            f'[[inbox]]\npath = "{self.inbox}"\nsettle = 0.2\nrescan_interval = 1.0\n{inbox}\n'
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.lives = 0

    def start(self, *options: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Begin a life in a process group of its own, its log in `root`."""
        self.lives += 1
        with (self.root / f"life-{self.lives}.log").open("wb") as out:
            self.process = subprocess.Popen(
                [*INBOXD, "run", "--config", str(self.config), *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(env or {})},
            )
        return self.process

    def drain(self, timeout: float = 240, env: dict[str, str] | None = None) -> int:
        """A whole life with --until-drained; its exit code."""
        return self.start("--until-drained", env=env).wait(timeout)

    def allow(self, pages: int | None) -> None:
        """Let the engine `gated` read so many pages of a life, those read already counted; None: all."""
        allowed, new = self.state / "pages-allowed", self.root / "pages-allowed"
        if pages is None:
            allowed.unlink()
            return
        self.state.mkdir(mode=0o750, exist_ok=True)
        new.write_text(str(pages))
        new.rename(allowed)

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send a signal to the daemon alone, as the OOM killer or a power cut would find it, and wait for its end."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def log(self) -> str:
        """Every life's log, for a failing assertion to show."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}" for path in sorted(self.root.glob("*.log"))
        )

    def sql(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows of the ledger, read-only; nothing while there is no ledger yet."""
        path = self.state / "ledger.sqlite"
        if not path.exists():
            return []
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)
        try:
            return connection.execute(query, parameters).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error) or "no such view" in str(error):
                return []
            raise
        finally:
            connection.close()

    def states(self) -> dict[str, str]:
        """Each file's name and state."""
        return {str(name): str(state) for name, state in self.sql("SELECT name, state FROM v_files")}

    def wait(self, condition: Callable[[], bool], timeout: float = PATIENCE_S) -> None:
        """Wait for a condition, and fail with the log if the daemon dies or it never comes."""
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end, f"waited {timeout} s in vain\n{self.states()}\n{self.log()}"
            assert self.process is None or self.process.poll() is None, f"the daemon died\n{self.log()}"
            time.sleep(0.02)

    def wait_for(self, **states: str) -> None:
        """Wait until the files named have these states; a dot in a name is written as two underscores."""
        wanted = {name.replace("__", "."): state for name, state in states.items()}
        self.wait(lambda: wanted.items() <= self.states().items())


@contextmanager
def running(root: Path, allow: int | None = None, **settings: Any) -> Iterator[Daemon]:
    """A daemon that is started now and gone afterwards, whatever happens; its engine is gated where it may `allow`."""
    daemon = Daemon(root, **settings if allow is None else {"engine": "gated", **settings})
    try:
        if allow is not None:
            daemon.allow(allow)
        daemon.start(env=None if allow is None else with_plugin())
        yield daemon
    finally:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.kill()


def output(original: Path | bytes) -> dict[str, Any]:
    """The JSON output beside an original."""
    path = os.fsencode(original) + b".json"
    with open(path, "rb") as file:  # noqa: PTH123 - bytes path
        return dict(json.loads(file.read()))


def received(door: socket.socket) -> list[str]:
    """The messages that lie in a socket which does not block."""
    messages = []
    while True:
        try:
            messages.append(door.recv(65536).decode())
        except BlockingIOError:
            return messages


def litter(folder: Path) -> list[bytes]:
    """Temporary files of ours left below a folder."""
    found = []
    for where, _, names in os.walk(os.fsencode(folder)):
        found += [where + b"/" + n for n in names if n.startswith(b".inboxd-") and n != b".inboxd-inbox"]
    return found
