"""A machine with a real systemd as its PID 1, made of this one's root in a second, for tests to install inboxd on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
NAMESPACES = ("--mount", "--pid", "--cgroup", "--ipc", "--uts", "--net", "--fork", "--kill-child")
PATIENCE_S = 60.0


def unfit() -> str | None:
    """Why such a machine can't be made here; None: it can."""
    if os.geteuid() != 0:
        return "only root may make namespaces and mounts"
    if not Path("/lib/systemd/systemd").exists():
        return "systemd is not installed"
    if missing := [tool for tool in ("unshare", "nsenter", "mount", "pivot_root") if not shutil.which(tool)]:
        return f"{', '.join(missing)} not installed"
    if (tried := subprocess.run(["unshare", *NAMESPACES, "true"], check=False, capture_output=True)).returncode:
        return f"no namespaces here: {tried.stderr.decode().strip()}"
    interpreter = os.path.realpath(CHECKOUT / ".venv/bin/python")
    if interpreter.startswith(("/home/", "/root/")):
        return f"the virtual environment's Python {interpreter} lies in a home folder, which the service can't see"
    return None


def until(condition: Callable[[], object], what: Callable[[], str] | str, seconds: float = PATIENCE_S) -> None:
    """Wait for a condition; says what was waited for, as of then, if it does not come."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:.0f} s for: {what() if callable(what) else what}"
        time.sleep(0.05)


class Machine:
    """Boot, run commands inside, power off. Nothing that is written inside reaches this machine."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._log = scratch / "boot.log"
        unified = Path("/sys/fs/cgroup/unified")
        self._cgroup = (unified if unified.is_dir() else Path("/sys/fs/cgroup")) / f"inboxd-test-{os.getpid()}"
        self._pid = 0

    def boot(self) -> None:
        """Start it and wait until it is up."""
        self._cgroup.mkdir()
        overlay = self._scratch / "machine"
        overlay.mkdir()
        join_and_go = f'echo $$ > "$0" && exec setpriv --pdeathsig KILL unshare {" ".join(NAMESPACES)} bash "$@"'
        with self._log.open("wb") as log:
            self._outer = subprocess.Popen(
                ["sh", "-c", join_and_go, self._cgroup / "cgroup.procs", HERE / "boot.sh", overlay, CHECKOUT],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        until(lambda: self._dead() or children.read_text().strip(), "the machine's PID 1")
        self._pid = int(children.read_text().split()[0])
        until(lambda: self._dead() or self._is_up(), "the machine to boot")
        assert not self._dead(), self._log.read_text()

    def power_off(self) -> None:
        """Stop every service in it, then itself."""
        if self._pid and not self._dead():
            os.kill(self._pid, signal.SIGRTMIN + 4)  # what asks PID 1 for poweroff.target
            try:
                self._outer.wait(30)
            except subprocess.TimeoutExpired:
                os.kill(self._pid, signal.SIGKILL)
                self._outer.wait()
        for folder, _, _ in os.walk(self._cgroup, topdown=False):
            until(lambda folder=folder: _removed(Path(folder)), f"{folder} to be empty", 10)  # type: ignore[misc]

    def run(self, *command: str, check: bool = True, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as root."""
        inside = [
            "nsenter",
            "-t",
            str(self._pid),
            "-a",
            "--",
            "env",
            "-i",
            *(f"{k}={v}" for k, v in ENVIRONMENT.items()),
        ]
        done = subprocess.run(
            [*inside, *command], check=False, input=stdin, capture_output=True, text=True, timeout=300
        )
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def sh(self, script: str) -> str:
        """Run a shell script inside and return what it prints."""
        return self.run("sh", "-ec", script).stdout

    def write(self, path: str, content: str) -> None:
        """Write a file inside."""
        self.run("sh", "-ec", 'mkdir -p "$(dirname "$1")" && cat > "$1"', "sh", path, stdin=content)

    def _is_up(self) -> bool:
        return self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")

    def _dead(self) -> bool:
        return self._outer.poll() is not None


def _removed(cgroup: Path) -> bool:
    try:
        cgroup.rmdir()
    except OSError:
        return False
    return True
