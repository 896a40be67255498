"""Many files are owed where nothing can be written: a few are tried, the rest wait with them and follow at once."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.rooms.test_assembly import Office, assemble, read

from inboxd.config import Inbox
from inboxd.ledger.form import stamp
from inboxd.ledger.opening import Ledger
from inboxd.model import Reading
from inboxd.rooms import delivering
from inboxd.rooms.assembly import AssemblyRoom
from inboxd.rooms.delivering import AT_ONCE, OWED_EVERY_S
from inboxd.rooms.inbox import Watched
from inboxd.rooms.outputs import Outputs

COUNT = 3 * AT_ONCE
PATIENCE_S = 20.0


class Tried(Outputs):
    """The outputs room, which says what was tried in which folder."""

    written: list[str]
    moved: list[str]

    async def deliver(self, reading: Reading, inbox: Inbox) -> Any:
        self.written.append(os.fsdecode(reading.path))
        return await super().deliver(reading, inbox)

    async def archive(self, reading: Reading, inbox: Inbox) -> Any:
        self.moved.append(os.fsdecode(reading.path))
        return await super().archive(reading, inbox)


class Clock:
    """Stands for the module `time`: it stands still until it is put forward."""

    def __init__(self) -> None:
        self.at = time.time()

    def time(self) -> float:
        return self.at

    monotonic = time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(delivering, "time", clock)
    monkeypatch.setattr(delivering, "IDLE_S", 0.001)
    return clock


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    (tmp_path / "inbox").mkdir()
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        office = Office(ledger, tmp_path / "inbox")
        office.room = Tried(office.reader)
        office.room.written, office.room.moved = [], []
        yield office


def tried(office: Office) -> Tried:
    assert isinstance(office.room, Tried)
    return office.room


def away(office: Office) -> Path:
    """A folder that can't be made: the share that it is on is away."""
    share = office.box.parent / "share"
    share.mkdir()
    return share / "folder"


def drop(office: Office, *folders: str) -> None:
    for folder in folders:
        (office.box / folder).mkdir()
        for number in range(COUNT):
            read(office, os.fsencode(f"{folder}/{number}.pdf"), f"{folder} {number}")


def put_off(office: Office, clock: Clock) -> int:
    """Files that nobody tries now."""
    ((count,),) = office.sql("SELECT count(*) FROM files WHERE next_delivery_at > ?", stamp(clock.at))
    return int(count)


def counted(office: Office) -> tuple[int, int]:
    """Files that are owed, and of these the ones with a reason."""
    with office.reader() as reader:
        counts = reader.counts()
    return counts.owed, counts.undeliverable


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.001)


def live(office: Office, clock: Clock, tries: list[str], waiting: int, heal: Callable[[], object]) -> list[int]:
    """The room through trouble, two more intervals of it, and healed: how much was tried by the end of each.

    `waiting` is how many files are put off once a probe has failed: where the inbox is shut, only those of its folder.
    """

    async def life() -> list[int]:
        watched = {office.inbox: Watched(office.inbox, office.settings)}
        room, stop = AssemblyRoom(office.ledger, office.reader, office.room, watched), asyncio.Event()
        task = asyncio.create_task(room.run(stop))
        await until(lambda: put_off(office, clock) >= waiting and counted(office) == (2 * COUNT, 2 * COUNT))
        seen = [len(tries)]
        for _ in range(2):
            clock.at += OWED_EVERY_S
            await until(lambda: put_off(office, clock) >= waiting)
            seen.append(len(tries))
        heal()
        clock.at += OWED_EVERY_S
        await until(lambda: counted(office) == (0, 0))
        stop.set()
        room.ring()
        await task
        return [*seen, len(tries)]

    return asyncio.run(life())


def test_where_an_inbox_cannot_be_written_to_one_file_is_tried_an_interval(office: Office, clock: Clock) -> None:
    out = away(office)
    office.settings = Inbox(path=str(office.box), output_dir=str(out))
    drop(office, "a", "b")
    first, *probes, healed = live(office, clock, tried(office).written, COUNT, out.mkdir)
    assert first <= AT_ONCE
    assert probes == [first + 1, first + 2]
    assert healed == first + 2 + 2 * COUNT  # all the rest as soon as one could be written


def test_an_archive_that_is_away_holds_up_no_output_and_is_tried_as_seldom(office: Office, clock: Clock) -> None:
    archive = away(office)
    office.settings = Inbox(path=str(office.box), after="archive", archive_dir=str(archive))
    drop(office, "a", "b")
    first, *probes, healed = live(office, clock, tried(office).moved, 2 * COUNT, archive.mkdir)
    assert {path.name for path in office.box.rglob("*.md")} == {f"{number}.pdf.md" for number in range(COUNT)}
    assert first <= AT_ONCE
    assert probes == [first + 1, first + 2]
    assert healed == first + 2 + 2 * COUNT
    assert len(list(archive.rglob("*.pdf"))) == 2 * COUNT


def test_a_folder_that_refuses_holds_up_no_other_folder(office: Office) -> None:
    out = office.box.parent / "out"
    out.mkdir()
    (out / "a").symlink_to(office.box.parent)
    office.settings = Inbox(path=str(office.box), output_dir=str(out))
    drop(office, "a", "b")
    assemble(office)
    assert len([path for path in tried(office).written if path.startswith("a/")]) <= AT_ONCE
    assert len(list((out / "b").glob("*.md"))) == COUNT
    assert counted(office) == (COUNT, COUNT)


def test_what_comes_to_a_folder_that_refused_waits_with_the_rest(office: Office, clock: Clock) -> None:
    out = office.box.parent / "out"
    out.mkdir()
    (out / "a").symlink_to(office.box.parent)
    office.settings = Inbox(path=str(office.box), output_dir=str(out))
    drop(office, "a")

    async def life() -> None:
        watched = {office.inbox: Watched(office.inbox, office.settings)}
        room, stop = AssemblyRoom(office.ledger, office.reader, office.room, watched), asyncio.Event()
        task = asyncio.create_task(room.run(stop))
        await until(lambda: put_off(office, clock) == COUNT)
        before = len(tried(office).written)
        read(office, b"a/late.pdf", "late")
        room.ring()
        await until(lambda: put_off(office, clock) == COUNT + 1)
        assert len(tried(office).written) == before
        stop.set()
        room.ring()
        await task

    asyncio.run(life())
    assert counted(office) == (COUNT + 1, COUNT + 1)


def test_an_inbox_whose_share_is_away_is_not_searched_for_every_file(office: Office) -> None:
    drop(office, "a")
    (office.box / "a").rename(office.box.parent / "a")
    assemble(office)
    assert len(tried(office).written) <= AT_ONCE
    assert counted(office) == (COUNT, COUNT)
