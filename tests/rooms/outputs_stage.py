"""A stage for tests of the outputs room: an inbox with an original, a reading of it, and a ledger of two questions.

Run as a program it delivers or archives once, so that a test may kill it on the way.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inboxd.config import Inbox
from inboxd.model import FileId, InboxId, Kind, PageReading, PageState, Reading, Signature, Written
from inboxd.rooms import placing
from inboxd.rooms.outputs import Archived, Outputs, Undeliverable, Vanished

Outcome = tuple[Written, ...] | Undeliverable | Vanished


@dataclass
class Ledger:
    """Answers what the outputs room asks of the ledger's reader."""

    seen: Signature
    ours: dict[bytes, str]

    def signature(self, file: FileId) -> Signature:
        return self.seen

    def written_for(self, file: FileId) -> Mapping[bytes, str]:
        return self.ours

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Stage:
    """`box` holds the original `path`; `deliver` and `archive` as the daemon would call them."""

    def __init__(self, base: Path, path: bytes = b"scan.pdf", **settings: Any) -> None:
        self.base = base
        self.box = base / "inbox"
        self.box.mkdir(exist_ok=True)
        self.path = path
        self.original = self.box / os.fsdecode(path)
        self.settings = Inbox(path=str(self.box), **settings)
        self.ours: dict[bytes, str] = {}
        self.next_life()

    def next_life(self) -> None:
        self.room = Outputs(self._ledger)  # type: ignore[arg-type]  # only what the room asks for

    def drop(self, content: bytes = b"%PDF a scan") -> Stage:
        self.original.parent.mkdir(parents=True, exist_ok=True)
        self.original.write_bytes(content)
        return self.note()

    def note(self) -> Stage:
        """The original is read as it is now."""
        status = self.original.lstat()
        self.seen = Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        self.content = self.original.read_bytes()
        return self

    def reading(self, text: str = "What it says.") -> Reading:
        page = PageReading(1, PageState.OK, "", text, 100, 140, "null", "none", 1, 0.5)
        hashed = hashlib.sha256(self.content).hexdigest()
        return Reading(FileId(1), InboxId(1), self.path, Kind.PDF, hashed, len(self.content), (page,))

    def deliver(self, text: str = "What it says.") -> Outcome:
        outcome = asyncio.run(self.room.deliver(self.reading(text), self.settings))
        if isinstance(outcome, tuple):
            self.ours = {written.path: written.sha256 for written in outcome}
        return outcome

    def archive(self) -> Archived | Undeliverable | Vanished:
        return asyncio.run(self.room.archive(self.reading(), self.settings))

    def names(self, folder: Path | None = None) -> set[str]:
        return {name for name in os.listdir(folder or self.original.parent) if name != self.original.name}

    def text(self, name: str) -> str:
        return (self.original.parent / name).read_text()

    def _ledger(self) -> Ledger:
        return Ledger(self.seen, self.ours)


def main(base: str, what: str, text: str, archive: str, *flags: str) -> None:
    if "plain" in flags:  # a filesystem without renameat2
        placing._rename_noreplace = lambda *_: False
    settings = {"after": "archive", "archive_dir": archive} if archive else {}
    stage = Stage(Path(base), outputs=("json", "md"), **settings).note()
    memory = stage.base / "ledger.json"
    if memory.exists():
        stage.ours = {os.fsencode(path): hash for path, hash in json.loads(memory.read_text()).items()}
    outcome = stage.deliver(text) if what == "deliver" else stage.archive()
    if isinstance(outcome, Undeliverable | Vanished):
        sys.exit(outcome.reason)
    memory.write_text(json.dumps({os.fsdecode(path): hash for path, hash in stage.ours.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
