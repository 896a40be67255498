"""A stage for the inbox and intake rooms: a folder, a real ledger, the real watchdog, and waiting for conditions."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from inboxd.config import Inbox, Intake
from inboxd.core.lifecycle import FileState
from inboxd.ledger import runs
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.ledger.rows import FileRow
from inboxd.model import Gone, InboxId, Sighting
from inboxd.rooms.inbox import InboxRoom, Watched
from inboxd.rooms.intake import IntakeRoom
from inboxd.rooms.spool import Spool

PATIENCE_S = 120.0
"""Only a test that fails waits so long."""


class Stage:
    """One or more inboxes under `home`, watched while `open` lasts; each `open` is a life of the daemon."""

    def __init__(self, home: Path, **settings: object) -> None:
        self.home = home
        self.inbox = home / "inbox"
        self.inbox.mkdir(exist_ok=True)
        self.settings: dict[str, object] = {
            "settle": 0.3,
            "max_settle": 1.5,
            "poll_interval": 0.5,
            "rescan_interval": 30.0,
            **settings,
        }
        self.folders = [self.inbox]
        self.intake_settings = Intake(min_free_bytes=0)
        self.ledger_path = home / "state" / "ledger.sqlite"
        self.spool = Spool(home / "state" / "spool")
        self.patience = 30.0
        self.wakes = 0
        self.ledger: Ledger
        self.reader: Reader
        self.inboxes: InboxRoom
        self.intake: IntakeRoom
        self.ids: list[InboxId] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Stage]:
        """Run both rooms; the first full scan is over when the block begins, unless the inbox is unavailable."""
        with Ledger.open(self.ledger_path) as self.ledger, Reader(self.ledger_path) as self.reader:
            watched = []
            for folder in self.folders:
                path = os.fsencode(folder)
                number = self.ledger.write_now(runs.inbox, path, now=time.time())
                settings = Inbox(path=os.fsdecode(path), **self.settings)  # type: ignore[arg-type]
                watched.append(Watched(number, settings))
            self.ids = [one.inbox for one in watched]
            door: asyncio.Queue[tuple[Sighting | Gone, ...]] = asyncio.Queue(16)
            stop = asyncio.Event()
            self.inboxes = InboxRoom(
                watched, door, lambda: Reader(self.ledger_path), self.ledger, patience=self.patience
            )
            self.intake = IntakeRoom(
                self.intake_settings,
                watched,
                door,
                self.ledger,
                self.spool,
                self._wake,
                self.inboxes.no_space,
                self.inboxes.rescan,
            )
            async with asyncio.TaskGroup() as group:
                group.create_task(self.inboxes.run(stop))
                group.create_task(self.intake.run(stop))
                try:
                    await self.until(lambda: self.inboxes.scans_everywhere() > 0, "the first scan")
                    yield self
                finally:
                    stop.set()

    def _wake(self) -> None:
        self.wakes += 1

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        """Wait until a condition holds."""
        ends = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < ends, f"waited in vain for {what or 'a condition'}; files: {self.rows()}"
            await asyncio.sleep(0.01)

    async def scanned(self) -> None:
        """Wait for a full scan that begins now."""
        for _ in range(2):  # one may have begun before
            self.inboxes.rescan(None)
            now = [self.inboxes.scans(number) for number in self.ids]
            await self.until(
                lambda now=now: all(self.inboxes.scans(i) > n for i, n in zip(self.ids, now, strict=True)), "a scan"
            )

    async def settled(self) -> None:
        """Wait until a full scan finds nothing more to do."""
        await self.scanned()
        await self.until(lambda: self.intake.idle, "intake to be idle")

    def rows(self) -> dict[str, tuple[str, str]]:
        """Name → state and reason of the latest version of each file."""
        return {row.name: (row.state.value, row.reason) for row in self.files()}

    def files(self, *, all_versions: bool = False) -> list[FileRow]:
        return self.reader.files(all_versions=all_versions, limit=1_000_000)

    def state(self, name: str) -> str:
        return self.rows().get(name, ("", ""))[0]

    def reason(self, name: str) -> str:
        return self.rows().get(name, ("", ""))[1]

    async def becomes(self, name: str, state: FileState | str) -> None:
        await self.until(lambda: self.state(name) == state, f"{name!r} to be {state}")

    def copies(self) -> dict[str, bytes]:
        """What lies in the spool: hash → content."""
        return {path.name: path.read_bytes() for path in (self.home / "state" / "spool").glob("*/*")}


async def _live(home: Path) -> None:
    stage = Stage(home)
    async with stage.open():
        await stage.settled()
        await stage.until(lambda: not stage.reader.counts().files[FileState.SETTLING], "all to be taken")


if __name__ == "__main__":  # a life that a test may kill on its way
    asyncio.run(_live(Path(sys.argv[1])))
