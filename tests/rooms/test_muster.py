"""How many of several engines read, as the ledger is told."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import cast

from inboxd.engines.null import NullEngine
from inboxd.engines.protocol import Engine
from inboxd.ledger import runs
from inboxd.ledger.opening import Ledger
from inboxd.rooms.muster import Muster


class Several:
    """All of an engine that the muster looks at."""

    missing = ""


def told(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as ledger:
        return ledger.execute("SELECT event, detail FROM events WHERE event LIKE 'engines%' ORDER BY id").fetchall()


def test_each_change_is_written_down_from_the_start_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"

    async def live() -> None:
        engine, started, stop = Several(), asyncio.Event(), asyncio.Event()
        with Ledger.open(path) as ledger:
            run = ledger.write_now(runs.start_run, version="1", pid=1, boot_id="", now=time.time())
            muster = Muster(cast(Engine, engine), ledger, run)
            engine.missing = "0 of 2 engines: they are starting"
            looking = asyncio.create_task(muster.run(started, stop))
            await asyncio.sleep(0)
            engine.missing = "1 of 2 engines: GPU 1: no such card"
            started.set()
            while not muster.missing:
                await asyncio.sleep(0.01)
            engine.missing = ""
            while muster.missing:
                await asyncio.sleep(0.01)
            stop.set()
            await looking

    asyncio.run(live())
    assert told(path) == [
        ("engines missing", "1 of 2 engines: GPU 1: no such card"),
        ("engines complete", ""),
    ]


def test_a_single_engine_is_not_looked_at(tmp_path: Path) -> None:
    async def live() -> None:
        with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
            run = ledger.write_now(runs.start_run, version="1", pid=1, boot_id="", now=time.time())
            await Muster(NullEngine(), ledger, run).run(asyncio.Event(), asyncio.Event())

    asyncio.run(live())
