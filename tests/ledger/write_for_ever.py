"""Writes to the ledger given, several verbs at once, and prints each name once it was acknowledged; until killed."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from sqlalchemy import Connection, text

from inboxd.ledger.opening import Ledger


def add(conn: Connection, name: str) -> None:
    conn.execute(
        text("INSERT INTO control (name, value, at) VALUES (:name, :value, '')"), {"name": name, "value": "x" * 500}
    )


async def write(ledger: Ledger, life: str, lane: int) -> None:
    for number in itertools.count():
        name = f"{life}.{lane}.{number}"
        await ledger.write(add, name)
        print(name, flush=True)


async def main() -> None:
    ledger = Ledger.open(Path(sys.argv[1]))
    async with asyncio.TaskGroup() as group:
        for lane in range(8):
            group.create_task(write(ledger, sys.argv[2], lane))


asyncio.run(main())
