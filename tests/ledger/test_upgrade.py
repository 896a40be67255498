"""A ledger of an older inboxd is brought up to date whole, with a copy of what it was, also if that is cut short."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool
from tests.ledger.clerk import Clerk, page_reading

from inboxd.errors import LedgerError
from inboxd.ledger import claims
from inboxd.ledger.form import SCHEMA
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.model import PageState
from inboxd.resources import folder

OLD = "0001"
ROWS = """
INSERT INTO inboxes VALUES (1, CAST('/in' AS BLOB), '/in', 0, 'polling', 'watching', '', '2026-01-01 00:00:00.000');
INSERT INTO files (inbox, folder, name, path, current, state, kind, size, mtime_ns, ctime_ns, inode, sha256, priority,
    pages, delivery, first_seen)
VALUES (1, x'', CAST('a.pdf' AS BLOB), '/in/a.pdf', 1, 'done', 'pdf', 1, 1, 1, 1, 'ab', 0, 1, 'delivered',
    '2026-01-01 00:00:00.000');
INSERT INTO pages (file, number, state, text, boxes, finished)
VALUES (1, 1, 'ok', 'what was read', '[["what",0.5,1,2,3,4]]', '2026-01-01 00:00:01.000');
"""
OPENS = "import sys; from pathlib import Path; from inboxd.ledger.opening import Ledger; Ledger.open(Path(sys.argv[1]))"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A ledger as the first inboxd wrote it, with a page in it and what a crash left in the log."""
    path = tmp_path / "state" / "ledger.sqlite"
    path.parent.mkdir()
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(folder("migrations")))
        config.attributes["connection"] = connection
        command.upgrade(config, OLD)
    path.chmod(0o640)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.executescript(ROWS)
        raw.commit()
        shutil.copytree(path.parent, tmp_path / "killed")  # with its log, as a killed process leaves it
    shutil.rmtree(path.parent)
    (tmp_path / "killed").rename(path.parent)
    return path


def schema_and_text(path: Path) -> tuple[str, str]:
    with closing(sqlite3.connect(path)) as raw:
        (version,) = raw.execute("SELECT version_num FROM alembic_version").fetchone()
        (text,) = raw.execute("SELECT text FROM pages").fetchone()
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return version, text


def copy_of(path: Path) -> Path:
    return path.with_name(f"ledger.sqlite.{OLD}.backup")


def test_an_older_ledger_keeps_all_that_is_in_it(old: Path) -> None:
    Ledger.open(old).close()
    with Reader(old) as reader:
        (page,) = reader.reading(1).pages  # type: ignore[arg-type]
        assert list(reader.query("SELECT text, warnings FROM v_pages")[1]) == [("what was read", None)]
    assert (page.text, page.warnings, page.boxes[0].text) == ("what was read", (), "what")


def test_a_copy_of_what_it_was_is_kept_beside_it_and_can_take_its_place(old: Path) -> None:
    Ledger.open(old).close()
    copy = copy_of(old)
    assert sorted(old.parent.iterdir()) == [old, copy]
    assert copy.stat().st_mode & 0o777 == 0o640
    shutil.copy(copy, old)
    assert schema_and_text(old) == (OLD, "what was read")
    Ledger.open(old).close()
    assert schema_and_text(old) == (SCHEMA, "what was read")


def test_only_the_newest_copy_is_kept(old: Path) -> None:
    earlier, foreign = old.with_name("ledger.sqlite.0000.backup"), old.with_name("notes.backup")
    for each in (earlier, foreign):
        each.write_text("")
    Ledger.open(old).close()
    assert sorted(old.parent.iterdir()) == [old, copy_of(old), foreign]


def test_a_new_or_current_ledger_is_not_copied(path: Path) -> None:
    Ledger.open(path).close()
    assert sorted(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "point", ["backup.copied", "backup.named", "migrating.upgraded", "migrating.committed", "ledger.made"]
)
def test_killed_on_the_way_it_is_brought_up_to_date_by_the_next_life(old: Path, point: str) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", OPENS, old], env={**os.environ, "INBOXD_FAULT": point}, check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL
    if copy_of(old).exists():
        assert schema_and_text(copy_of(old)) == (OLD, "what was read")
    Ledger.open(old).close()
    assert schema_and_text(old) == (SCHEMA, "what was read")
    assert sorted(old.parent.iterdir()) == [old, copy_of(old)]
    assert schema_and_text(copy_of(old)) == (OLD, "what was read")


@pytest.fixture
def in_the_way(old: Path) -> Iterator[Path]:
    way = copy_of(old)
    way.mkdir()
    (way / "something").touch()
    yield way
    shutil.rmtree(way)


def test_what_cannot_be_copied_is_not_changed(old: Path, in_the_way: Path) -> None:
    with pytest.raises(LedgerError, match="can't be copied") as caught:
        Ledger.open(old)
    assert "Nothing was changed" in caught.value.advice
    assert schema_and_text(old) == (OLD, "what was read")


def test_what_the_decoder_said_is_kept_with_the_page(clerk: Clerk) -> None:
    clerk.open()
    (claim,) = clerk.claim_pages()
    said = ('MuPDF says: "\\x1b', "a font is not embedded")
    last_word = replace(page_reading(1, "text", PageState.OK), warnings=said)
    assert clerk.do(claims.finish_page, claim.page, last_word)
    with clerk.reader() as reader:
        (page,) = reader.reading(claim.file).pages
    assert page.warnings == said
    assert clerk.sql("SELECT w.value FROM v_pages v, json_each(v.warnings) w") == [(text,) for text in said]
