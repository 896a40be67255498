"""Fills a small disk of its own while the ledger is written there, then makes room: every write goes through."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import structlog
from sqlalchemy import Connection, text

from inboxd.ledger import writer
from inboxd.ledger.opening import Ledger

BALLAST = 14_000_000


def add(conn: Connection, number: int) -> None:
    statement = text("INSERT INTO control (name, value, at) VALUES (:name, :value, '')")
    conn.execute(statement, {"name": f"{number}", "value": "x" * 5000})


def main(disk: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk], check=True)
    writer.PAUSE_S = 0.01
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(BALLAST))
    ledger = Ledger.open(disk / "ledger.sqlite")
    with structlog.testing.capture_logs() as logs:
        waits = threading.Event()

        def make_room() -> None:
            while not any(line["event"] == "ledger waits" for line in logs):
                if waits.wait(0.01):
                    return
            ballast.unlink()

        helper = threading.Thread(target=make_room)
        helper.start()
        for number in range(200):
            ledger.write_now(add, number)
        waits.set()
        helper.join()
    count = ledger.write_now(lambda conn: conn.execute(text("SELECT count(*) FROM control")).scalar())
    ledger.close()
    print(f"written: {count}, waited: {any(line['event'] == 'ledger waits' for line in logs)}")


main(Path(sys.argv[1]))
