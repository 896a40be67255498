"""The outputs room with a real ledger: what it may replace is what the ledger says was written for that path."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ledger.clerk import Clerk

from inboxd.config import Inbox
from inboxd.core.lifecycle import FileState
from inboxd.ledger import claims, deliveries, runs
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.model import FileId, Signature
from inboxd.rooms.outputs import Outputs


class Office(Clerk):
    """A clerk whose files are real, with an outputs room beside."""

    def __init__(self, ledger: Ledger, box: Path) -> None:
        super().__init__(ledger)
        self.box = box
        self.inbox = self.do(runs.inbox, os.fsencode(box))
        self.settings = Inbox(path=str(box))
        self.room = Outputs(lambda: Reader(ledger.path))
        self.file = box

    def signature(self, content: str = "x") -> Signature:
        status = self.file.stat()
        return Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)

    def handle(self, name: bytes, content: str, text: str) -> FileId:
        """A file from its arrival to its delivery."""
        self.file = self.box / os.fsdecode(name)
        self.file.write_text(content)
        file = self.see(name, content)
        if self.accept(file, content).state is FileState.READY:
            self.claim()
            self.do(claims.opened, file, 1)
            for page in self.claim_pages():
                self.finish(page, text)
        self.hand_out(file)
        return file

    def hand_out(self, file: FileId) -> None:
        with self.reader() as reader:
            reading = reader.reading(file)
        written = asyncio.run(self.room.deliver(reading, self.settings))
        assert isinstance(written, tuple)
        self.do(deliveries.delivered, file, written)

    def names(self) -> set[str]:
        return set(os.listdir(self.box))


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    (tmp_path / "inbox").mkdir()
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        yield Office(ledger, tmp_path / "inbox")


def test_every_version_of_a_scan_has_the_same_outputs(office: Office) -> None:
    for content in ("one", "two", "three"):
        office.handle(b"scan\n\xe9.pdf", content, content)
    office.handle(b"scan\n\xe9.pdf", "one", "read again")  # a duplicate of the first: not read again
    name = os.fsdecode(b"scan\n\xe9.pdf")
    assert office.names() == {name, f"{name}.md", f"{name}.json"}
    assert (office.box / f"{name}.md").read_text() == "one\n"


def test_a_duplicate_has_outputs_of_its_own(office: Office) -> None:
    office.handle(b"a.pdf", "same", "What it says.")
    office.handle(b"b.pdf", "same", "")
    assert office.names() == {f"{letter}.pdf{end}" for letter in "ab" for end in ("", ".md", ".json")}
    assert (office.box / "b.pdf.md").read_text() == "What it says.\n"


def test_the_output_of_one_file_is_foreign_to_another(office: Office) -> None:
    (office.box / "scan.pdf.md").write_text("notes\n")
    office.handle(b"scan.pdf", "one", "One.")
    assert (office.box / "scan.pdf.2.md").read_text() == "One.\n"
    office.handle(b"scan.pdf.2", "two", "Two.")
    assert (office.box / "scan.pdf.2.md").read_text() == "One.\n"
    assert (office.box / "scan.pdf.2.2.md").read_text() == "Two.\n"
    office.handle(b"scan.pdf", "three", "Three.")
    assert (office.box / "scan.pdf.2.md").read_text() == "Three.\n"
    assert (office.box / "scan.pdf.2.2.md").read_text() == "Two.\n"


def test_outputs_are_written_again_when_they_are_owed_again(office: Office) -> None:
    file = office.handle(b"scan.pdf", "one", "One.")
    (office.box / "scan.pdf.md").unlink()
    office.do(deliveries.delivered, file, [], archiving=True)
    assert office.owed(10) == [file]
    office.hand_out(file)
    assert office.names() == {"scan.pdf", "scan.pdf.md", "scan.pdf.json"}
    assert office.owed(10) == []
