"""The whole daemon, killed between any two steps that touch disk or ledger; the next life makes everything right.

The points are the daemon's own (`inboxd.faults`): the first test fails for one that no case below is killed at.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from tests.process.lives import live
from tests.process.test_survival import pdf

CODE = Path(__file__).parents[2] / "daemon" / "inboxd"
MARKER = ".inboxd-inbox"
CORRUPT = b"%PDF-1.7\n" + b"no object in sight\n" * 20 + b"startxref\n9\n%%EOF\n"

NOT_HERE = {"placing.linked", "backup.copied", "backup.named", "assembly.owed", "assembly.held", "assembly.shut"}
"""Met only where a filesystem can't rename without replacing: tests/rooms/test_outputs_crash.py kills there; where
a ledger of an older inboxd is met: tests/ledger/test_upgrade.py does; or where outputs can't be written:
tests/process/test_trouble.py does."""
FIRST = {
    "lock.emptied": (1,),
    "lock.signed": (1,),
    "ledger.made": (1,),
    "migrating.upgraded": (1,),
    "migrating.committed": (1,),
    "service.begun": (1,),
    "beginning.taken_up": (1,),
    "beginning.let_go": (1,),
    "marker.created": (1, 2),
    "marker.written": (1, 2),
    "intake.recorded": (1,),
    "spool.created": (1, 5),
    "spool.copied": (1, 5),
    "intake.copied": (1, 5),
    "spool.named": (1, 5),
    "spool.kept": (1, 5),
    "intake.accepted": (1, 5),
    "intake.set_aside": (1,),
    "opening.claimed": (1, 4),
    "opening.answered": (1, 4),
    "opening.opened": (1, 3),
    "opening.quarantined": (1,),
    "rendering.claimed": (1, 4),
    "reading.admitted": (1,),
    "reading.answered": (1, 4),
    "reading.read": (1, 4),
    "placing.created": (1, 8),
    "placing.written": (2, 8),
    "placing.synced": (1, 8),
    "placing.placed": (1, 2, 8),
    "outputs.delivered": (1, 4),
    "assembly.outputs_written": (1, 4),
    "assembly.delivered": (1, 4),
    "folders.made": (1, 2),
    "archiving.renamed": (1,),
    "assembly.archived": (1,),
    "assembly.closed": (1,),
    "service.ended": (1,),
    # Every verb of the ledger passes here; how many share a transaction is chance.
    "writer.carried_out": (1, 3, 8, 15),
    "writer.committed": (1, 3, 8, 15),
}
"""Point → passages, in the first life of all."""
SECOND = {"spool.swept": "spool.copied", "placing.swept": "placing.synced@2", "marker.removed": "service.ended"}
"""Point → where an earlier life was killed, for the point to be met."""
LATER = {"placing.replaced": (1, 2), "spool.released": (1,)}
"""Point → passages, in a life that finds new content and copies of what is done."""
ELSEWHERE = {"archiving.copied": (1,), "archiving.removed": (1,)}
"""Point → passages, with the archive on another filesystem."""


def passages(points: dict[str, tuple[int, ...]]) -> list[str]:
    return [f"{point}@{passage}" for point, numbers in points.items() for passage in numbers]


def test_the_cases_below_miss_no_point() -> None:
    points = {
        point
        for module in CODE.rglob("*.py")
        for point in re.findall(r'faults\.point\("([\w.]+)"\)', module.read_text())
    }
    assert points == FIRST.keys() | SECOND.keys() | LATER.keys() | ELSEWHERE.keys() | NOT_HERE


@dataclass(frozen=True)
class Original:
    """What was dropped, and what is to become of it."""

    content: bytes
    pages: int  # that can be read: 0 where it is refused
    ends: tuple[str, ...]  # states that it may end in
    archived: Path | None = None

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


class Scene:
    """Two inboxes, one of which has its originals moved to an archive, and the lives of one daemon over them."""

    def __init__(self, root: Path, archive: Path | None = None) -> None:
        self.root = root
        self.inbox, self.tray, self.state = root / "inbox", root / "tray", root / "state"
        self.archive = archive or root / "archive"
        self.lives = self.deaths = 0
        self.originals: dict[Path, Original] = {}
        pace = "settle = 0.1\nmax_settle = 0.3\nrescan_interval = 1.0"
        (root / "inboxd.toml").write_text(
            f'state = "{self.state}"\n[render]\nworkers = 1\n[engine]\nname = "null"\n'
            f'[[inbox]]\npath = "{self.inbox}"\n{pace}\n'
            f'[[inbox]]\npath = "{self.tray}"\n{pace}\nafter = "archive"\narchive_dir = "{self.archive}"\n'
        )
        letter = self.made_pdf("Dear reader,", "yours.")
        self.drop(self.inbox / "letter.pdf", Original(letter, 2, ("done", "duplicate")))
        self.drop(self.inbox / "again" / "copy.pdf", Original(letter, 2, ("done", "duplicate")))
        self.drop(self.inbox / "photo.png", Original(png(), 1, ("done",)))
        self.drop(self.inbox / "corrupt.pdf", Original(CORRUPT, 0, ("quarantined",)))
        self.drop(self.inbox / "empty.pdf", Original(b"", 0, ("quarantined",)))
        moved = self.archive / "2026" / "contract.pdf"
        self.drop(self.tray / "2026" / "contract.pdf", Original(self.made_pdf("We agree."), 1, ("done",), moved))

    def made_pdf(self, *pages: str) -> bytes:
        path = self.root / "made.pdf"
        pdf(os.fsencode(path), *pages)
        return path.read_bytes()

    def drop(self, path: Path, original: Original) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(original.content)
        self.originals[path] = original

    def live(self, fault: str = "") -> int:
        """One life, until all is drained or it dies at `fault`."""
        return self.command("run", "--until-drained", fault=fault)

    def command(self, *words: str, fault: str = "") -> int:
        """Any command of inboxd, dying at `fault`."""
        self.lives += 1
        command = [words[0], "--config", str(self.root / "inboxd.toml"), *words[1:]]
        return live(command, self.root / f"life-{self.lives}.log", {"INBOXD_FAULT": fault})

    def die(self, fault: str) -> None:
        """A life that ends at `fault`. What it leaves visible is whole."""
        assert self.live(fault) == -signal.SIGKILL, f"{fault} was not met\n{self.log()}"
        self.deaths += 1
        for path, content in self.outputs().items():
            assert content.endswith(b"\n"), f"half of {path} is visible"
            if path.suffix == ".json":
                said = json.loads(content)
                assert len(said["pages"]) == said["counts"]["pages"] == said["counts"]["ok"]
        for path, original in self.originals.items():
            places = [place for place in (path, original.archived) if place is not None and place.exists()]
            assert places, f"{path} is lost"
            assert {place.read_bytes() for place in places} == {original.content}

    def recover(self) -> None:
        """The next life: each input has one right set of outputs and one final state, and nothing else is left."""
        visible, read = self.outputs(), self.pages_read()
        assert self.live() == 0, self.log()
        for page, said in read.items():
            assert self.pages_read()[page] == said, "a page was read twice"
        self.check(visible)

    def check(self, visible: dict[Path, bytes]) -> None:
        """All is as it should be, and what was `visible` before is as it was."""
        self._check_states()
        self._check_outputs(visible)
        self._check_litter()

    def _check_states(self) -> None:
        rows = self.sql("SELECT path, state FROM files WHERE current")
        assert sorted(path for path, _ in rows) == sorted(map(str, self.originals)), "one row for each path"
        for path, state in rows:
            assert state in self.originals[Path(path)].ends, f"{path} is {state}\n{self.log()}"
        done = [self.originals[Path(path)].sha256 for path, state in rows if state == "done"]
        assert len(done) == len(set(done)), "the same content was read twice"
        # The daemon was killed while its pages were read outside of it: that is no page's fault and no file's.
        assert self.sql("SELECT DISTINCT attempts, deaths FROM pages") == [(1, 0)]
        assert self.sql("SELECT DISTINCT attempts, deaths FROM files WHERE state = 'done'") == [(1, 0)]
        lives = self.sql("SELECT exit_code, ended IS NULL FROM runs ORDER BY id")
        assert lives[-1] == (0, 0)
        assert len([code for code, _ in lives if code is None]) in (self.deaths, self.deaths - 1)
        assert not any(is_open for _, is_open in lives)
        assert self.sql("PRAGMA integrity_check") == [("ok",)]
        assert self.sql("PRAGMA foreign_key_check") == []

    def _check_outputs(self, visible: dict[Path, bytes]) -> None:
        outputs = self.outputs()
        wanted = {path: original for path, original in self.originals.items() if original.pages}
        assert outputs.keys() == {path.with_name(path.name + end) for path in wanted for end in (".md", ".json")}
        for path, original in wanted.items():
            text, facts = (outputs[path.with_name(path.name + end)] for end in (".md", ".json"))
            said = json.loads(facts)
            assert (said["sha256"], said["name"]) == (original.sha256, path.name)
            assert said["outputs"] == {"md": hashlib.sha256(text).hexdigest()}
            assert [page["state"] for page in said["pages"]] == ["ok"] * original.pages
            written = self.sql(f"SELECT sha256 FROM outputs WHERE path GLOB '{path}.*' ORDER BY format")
            assert written == [(hashlib.sha256(facts).hexdigest(),), (hashlib.sha256(text).hexdigest(),)]
        for path, content in visible.items():
            assert outputs[path] == content or path in self.replaced, f"{path} was visible, and not yet right"

    replaced: frozenset[Path] = frozenset()  # outputs that a new version may replace

    def _check_litter(self) -> None:
        ends = {original.archived or path: original for path, original in self.originals.items()}
        for path, original in ends.items():
            assert path.read_bytes() == original.content
        folders = (self.inbox, self.tray, self.archive)
        found = {path for folder in folders for path in folder.rglob("*") if not path.is_dir()}
        assert found == ends.keys() | self.outputs().keys() | {self.inbox / MARKER, self.tray / MARKER}
        assert {path.name for path in self.state.iterdir()} == {"ledger.sqlite", "ledger.sqlite.lock", "spool"}
        for copy in (self.state / "spool").glob("*/*"):
            assert copy.name == hashlib.sha256(copy.read_bytes()).hexdigest(), "half a copy stayed in the spool"

    def outputs(self) -> dict[Path, bytes]:
        """What stands under the name of an output."""
        found = (path for folder in (self.inbox, self.tray) for path in folder.rglob("*.*.*"))
        return {path: path.read_bytes() for path in found if not path.name.startswith(".")}

    def pages_read(self) -> dict[int, tuple[Any, ...]]:
        """Pages that have their last word, and which, and when they got it."""
        rows = self.sql("SELECT id, state, text, finished FROM pages WHERE finished IS NOT NULL")
        return {page: tuple(said) for page, *said in rows}

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of the ledger; nothing before it has its tables."""
        path = self.state / "ledger.sqlite"
        if not path.exists():
            return []
        with closing(sqlite3.connect(path)) as connection:
            has_tables = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'pages'").fetchone()
            return connection.execute(query).fetchall() if has_tables else []

    def log(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in sorted(self.root.glob("life-*.log")))


def png() -> bytes:
    """A small picture with something written on it."""
    page = np.full((120, 200, 3), 255, np.uint8)
    cv2.putText(page, "photo", (20, 70), cv2.FONT_HERSHEY_SIMPLEX, 1.5, (0, 0, 0), 2)
    return bytes(cv2.imencode(".png", page)[1])


@pytest.mark.slow
@pytest.mark.parametrize("fault", passages(FIRST))
def test_killed_in_the_first_life(tmp_path: Path, fault: str) -> None:
    scene = Scene(tmp_path)
    scene.die(fault)
    scene.recover()


@pytest.mark.slow
@pytest.mark.parametrize("fault", SECOND)
def test_killed_while_taking_up_what_a_killed_life_left(tmp_path: Path, fault: str) -> None:
    scene = Scene(tmp_path)
    scene.die(SECOND[fault])
    scene.die(fault)
    scene.recover()


@pytest.mark.slow
@pytest.mark.parametrize("fault", passages(LATER))
def test_killed_while_a_new_version_and_a_copy_come_in(tmp_path: Path, fault: str) -> None:
    scene = Scene(tmp_path)
    scene.recover()
    photo = scene.inbox / "photo.png"
    scene.drop(scene.inbox / "photo copy.png", Original(photo.read_bytes(), 1, ("duplicate",)))
    contract = scene.made_pdf("We agree no more.", "Not at all.", "Never.")
    scene.drop(photo.with_name("empty.pdf"), Original(contract, 3, ("done",)))
    scene.drop(photo.with_name("letter.pdf"), Original(scene.made_pdf("Dear writer,"), 1, ("done",)))
    scene.replaced = frozenset(photo.with_name("letter.pdf" + end) for end in (".md", ".json"))
    scene.die(fault)
    scene.recover()


@contextmanager
def another_filesystem(than: Path) -> Iterator[Path]:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == than.stat().st_dev:
        pytest.skip("/dev/shm is no filesystem of its own here")
    folder = Path(tempfile.mkdtemp(dir=memory, prefix="inboxd-test-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.parametrize("fault", passages(ELSEWHERE))
def test_killed_while_an_original_moves_to_another_filesystem(tmp_path: Path, fault: str) -> None:
    with another_filesystem(tmp_path) as elsewhere:
        scene = Scene(tmp_path, elsewhere / "archive")
        (elsewhere / "keeps the folder from looking like a bare mount point").touch()
        scene.die(fault)
        scene.recover()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["writer.carried_out", "writer.committed"])
@pytest.mark.parametrize(
    ("verb", "changes"),
    [
        (("requeue", "photo.png"), "SELECT count(*) FROM files WHERE state = 'done'"),
        (("prune", "--events-days", "1"), "SELECT count(*) FROM events"),
    ],
    ids=["requeue", "prune"],
)
def test_killed_while_a_person_changes_the_ledger(
    tmp_path: Path, verb: tuple[str, ...], changes: str, fault: str
) -> None:
    scene = Scene(tmp_path)
    scene.recover()
    with closing(sqlite3.connect(scene.state / "ledger.sqlite")) as ledger, ledger:
        ledger.execute("UPDATE events SET at = '2020-01-01 00:00:00.000' WHERE event <> 'seen'")
    before = scene.sql(changes)
    assert scene.command(*verb, fault=fault) == -signal.SIGKILL, scene.log()
    assert (scene.sql(changes) == before) == (fault == "writer.carried_out"), "half of it was done"
    assert scene.command(*verb) == 0, scene.log()
    assert scene.sql(changes) != before
    assert scene.live() == 0, scene.log()
    scene.check({})
