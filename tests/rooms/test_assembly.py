"""The assembly room with a real ledger and real folders: what is complete is delivered, what can't be is owed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.rooms.test_outputs_ledger import Office

from inboxd.config import Inbox
from inboxd.core.lifecycle import FileState
from inboxd.ledger import claims, deliveries, runs
from inboxd.ledger.opening import Ledger
from inboxd.model import FileId
from inboxd.rooms.assembly import AssemblyRoom
from inboxd.rooms.inbox import Watched
from inboxd.rooms.marker import MARKER


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    (tmp_path / "inbox").mkdir()
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        yield Office(ledger, tmp_path / "inbox")


def read(office: Office, name: bytes = b"scan.pdf", content: str = "one") -> FileId:
    office.file = office.box / os.fsdecode(name)
    office.file.write_text(content)
    file = office.see(name, content)
    if office.accept(file, content).state is FileState.READY:
        office.claim()
        office.do(claims.opened, file, 1)
        for page in office.claim_pages():
            office.finish(page, "What it says.")
    return file


def assemble(office: Office) -> None:
    """One round of the room, as it makes when it is asked to stop."""

    async def round() -> None:
        watched = {office.inbox: Watched(office.inbox, office.settings)}
        room = AssemblyRoom(office.ledger, office.reader, office.room, watched)
        stop = asyncio.Event()
        stop.set()
        await room.run(stop)

    asyncio.run(round())


def delivery(office: Office, file: FileId) -> str:
    with office.reader() as reader:
        row = reader.file(file)
    assert row is not None
    return row.delivery


def with_archive(office: Office) -> Path:
    archive = office.box.parent / "archive"
    office.settings = Inbox(path=str(office.box), after="archive", archive_dir=str(archive))
    return archive


def test_a_complete_file_is_delivered_and_done(office: Office) -> None:
    file = read(office)
    assemble(office)
    assert office.state(file) is FileState.DONE
    assert office.names() == {"scan.pdf", "scan.pdf.md", "scan.pdf.json"}


def test_a_folder_in_the_way_is_told_once_and_the_file_stays_owed(office: Office) -> None:
    office.settings = Inbox(path=str(office.box), output_dir=str(office.box.parent / "share" / "out"))
    (office.box.parent / "share").mkdir()
    file = read(office)
    with capture_logs() as logs:
        assemble(office)
        assemble(office)
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert (office.state(file), delivery(office, file)) == (FileState.READING, "owed")


def test_the_original_goes_to_the_archive_and_nothing_is_owed(office: Office) -> None:
    archive = with_archive(office)
    file = read(office)
    assemble(office)
    assert (office.state(file), delivery(office, file)) == (FileState.DONE, "delivered")
    assert office.history(file)[-2:] == ["done", "archived"]
    assert office.names() == {"scan.pdf.md", "scan.pdf.json"}
    assert os.listdir(archive) == ["scan.pdf"]


def test_a_life_that_ended_before_the_archive_leaves_it_owed(office: Office) -> None:
    archive = with_archive(office)
    file = read(office)
    with office.reader() as reader:
        written = asyncio.run(office.room.deliver(reader.reading(file), office.settings))
    assert isinstance(written, tuple)
    office.do(deliveries.delivered, file, written, archiving=True)
    assert office.owed(10) == [file]
    assemble(office)
    assert delivery(office, file) == "delivered"
    assert os.listdir(archive) == ["scan.pdf"]


def test_a_life_that_ended_just_after_the_archive_is_closed_by_the_next(office: Office) -> None:
    with_archive(office)
    file = read(office)
    assemble(office)
    office.do(deliveries.delivered, file, [], archiving=True)
    assemble(office)
    assert delivery(office, file) == "delivered"


def test_a_duplicate_that_was_deleted_is_owed_nothing(office: Office) -> None:
    (office.box / os.fsdecode(MARKER)).touch()
    read(office)
    assemble(office)
    duplicate = read(office, b"copy.pdf")
    office.file.unlink()
    assemble(office)
    assert (office.state(duplicate), delivery(office, duplicate)) == (FileState.DUPLICATE, "none")
    assert not (office.box / "copy.pdf.md").exists()


def test_an_inbox_without_its_marker_may_be_a_share_that_is_away(office: Office) -> None:
    read(office)
    assemble(office)
    duplicate = read(office, b"copy.pdf")
    office.file.unlink()
    assemble(office)
    assert delivery(office, duplicate) == "owed"


def test_a_file_that_is_not_done_and_not_there_waits_for_the_scan(office: Office) -> None:
    (office.box / os.fsdecode(MARKER)).touch()
    file = read(office)
    office.file.rename(office.box / "renamed.pdf")
    assemble(office)
    assert (office.state(file), delivery(office, file)) == (FileState.READING, "owed")


def test_a_duplicate_that_an_older_inboxd_left_owed_gets_its_outputs_with_its_original(office: Office) -> None:
    first = read(office)
    assemble(office)
    second, third = read(office, b"two.pdf"), read(office, b"three.pdf")
    office.do(runs.requeue, [first])
    office.spoil("UPDATE files SET delivery = 'owed', next_delivery_at = '' WHERE id = :id", id=third)
    assemble(office)
    assert delivery(office, third) == "none"
    assert read(office, b"two.pdf") == second
    assemble(office)
    assert (office.state(second), delivery(office, third)) == (FileState.DONE, "delivered")


def test_what_can_neither_be_delivered_nor_put_off_does_not_keep_the_room_busy(office: Office) -> None:
    file = read(office)
    office.spoil("DELETE FROM pages WHERE file = :id", id=file)
    verbs = office.ledger.verbs
    assemble(office)
    assert delivery(office, file) == "owed"
    assert office.ledger.verbs - verbs < 10
