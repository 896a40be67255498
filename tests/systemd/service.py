"""inboxd on a test machine, as systemd sees it and as its ledger remembers it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.systemd.machine import Machine, until

INBOXD = "/opt/inboxd/bin/inboxd"
INBOX = "/srv/scans"
STATE = "/var/lib/inboxd"
ORDERS = f"{STATE}/orders"

CONFIG = f"""
state = "{STATE}"
drain_timeout = 10.0
[engine]
name = "patient"
[render]
workers = 1
[[inbox]]
path = "{INBOX}"
settle = 0.1
rescan_interval = 2.0
"""

HASTE = """
[Unit]
StartLimitIntervalSec=10min
StartLimitBurst=4
[Service]
WatchdogSec=3
TimeoutAbortSec=3
TimeoutStopSec=20
RestartSec=200ms
"""
"""The shipped unit with a test's patience; every other line of it holds."""


class Service:
    """Install it, steer its patient engine, ask systemd, the journal and the ledger."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._since = ""

    def install(self, config: str = CONFIG) -> None:
        self._since = self.machine.sh("date '+%F %T.%6N'").strip()
        self.machine.write("/etc/inboxd/inboxd.toml", config)
        self.machine.sh(f"mkdir -p {INBOX}")
        self.machine.run(INBOXD, "install-service", "--program", INBOXD)
        self.machine.sh(f"chown inboxd: {INBOX}; install -d -o inboxd -g inboxd {STATE} {ORDERS}")
        self.machine.write("/etc/systemd/system/inboxd.service.d/90-haste.conf", HASTE)
        self.machine.run("systemctl", "daemon-reload")

    def remove(self) -> None:
        run = self.machine.run
        run("systemctl", "kill", "--signal=KILL", "inboxd", check=False)
        run("systemctl", "stop", "inboxd", check=False)
        run("systemctl", "reset-failed", "inboxd", check=False)
        run(
            "sh",
            "-c",
            f"rm -rf {STATE} {INBOX} /etc/systemd/system/inboxd* /etc/inboxd /srv/*; systemctl daemon-reload",
        )

    def start(self) -> None:
        assert self.machine.run("systemctl", "start", "inboxd", check=False).returncode == 0, self.journal()

    def order(self, what: str, content: str = "") -> None:
        self.machine.write(f"{ORDERS}/{what}", content)

    def revoke(self, what: str) -> None:
        self.machine.run("rm", f"{ORDERS}/{what}")

    def reads(self) -> list[str]:
        """Hashes of the pages that the engine has read to the end, in all lives."""
        return self.machine.sh(f"cat {ORDERS}/reads 2>/dev/null || true").split()

    def drop(self, name: str, pages: int, *, words: str = "", owner: str = "12345:12345", mode: str = "644") -> None:
        """Put a PDF of so many pages, each with another number after the words, into the inbox."""
        part, path = f"/srv/{name}.part", f"{INBOX}/{name}"
        self.machine.run("/opt/checkout/.venv/bin/python", "-", part, str(pages), words, stdin=DRAW)
        self.machine.sh(f"chown {owner} {part}; chmod {mode} {part}; mv {part} {path}")

    def property(self, name: str) -> str:
        return self.machine.run("systemctl", "show", "inboxd", "-p", name, "--value").stdout.strip()

    def processes(self) -> list[int]:
        """Every process in the service's control group."""
        group = self.property("ControlGroup") or "/system.slice/inboxd.service"
        listing = self.machine.run("cat", f"/sys/fs/cgroup{group}/cgroup.procs", check=False).stdout
        return [int(line) for line in listing.split()]

    def journal(self) -> str:
        self.machine.run("journalctl", "--sync")
        lines = self.machine.run("journalctl", "-u", "inboxd", "-o", "cat", "--no-pager", "--since", self._since)
        return lines.stdout

    def entries(self, *fields: str) -> list[dict[str, Any]]:
        """Journal entries of the daemon itself, with these fields."""
        out = self.machine.run("journalctl", "-t", "inboxd", "-o", "json", "--no-pager", "--since", self._since)
        return [{field: entry.get(field) for field in fields} for entry in map(json.loads, out.stdout.splitlines())]

    def sql(self, query: str) -> list[Sequence[Any]]:
        """Rows of the ledger; none while there is no ledger."""
        script = (
            "import json, sqlite3, sys\n"
            f"ledger = sqlite3.connect('file:{STATE}/ledger.sqlite?mode=ro', uri=True, timeout=30)\n"
            "print(json.dumps(ledger.execute(sys.argv[1]).fetchall()))"
        )
        done = self.machine.run("/usr/bin/python3", "-c", script, query, check=False)
        if done.returncode and ("no such table" in done.stderr or "unable to open" in done.stderr):
            return []
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout))

    def wait_property(self, name: str, value: str, seconds: float = 60) -> None:
        until(
            lambda: self.property(name) == value,
            f"{name}={value} (is {self.property(name)})\n{self.journal()}",
            seconds,
        )

    def wait_sql(self, query: str, at_least: int, seconds: float = 120) -> None:
        def reached() -> bool:
            rows = self.sql(query)
            return bool(rows) and rows[0][0] >= at_least

        until(reached, lambda: f"{query} ≥ {at_least}: {self.sql(query)}\n{self.journal()}", seconds)


DRAW = """
import sys
import pymupdf
document = pymupdf.open()
for number in range(1, int(sys.argv[2]) + 1):
    page = document.new_page(width=200, height=200)
    page.insert_text((20, 40), sys.argv[3], fontsize=14)
    page.insert_text((20, 120), str(number), fontsize=80)
document.save(sys.argv[1])
"""
