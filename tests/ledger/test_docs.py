"""docs/ledger.md tells the truth: every query runs, every column and state and event is there, and none too many."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.ledger.clerk import Clerk
from tests.ledger.test_plans import whole_life

from inboxd.core.lifecycle import FileState
from inboxd.ledger import arrivals, runs
from inboxd.ledger.conditions import Delivery
from inboxd.ledger.reading import Reader
from inboxd.ledger.schema import metadata
from inboxd.model import MemorySample, PageState
from inboxd.resources import folder

PAGE = (folder("migrations").parent / "docs" / "ledger.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
SECTIONS = {match[1]: match[2] for match in re.finditer(r"### `(\w+)`\n(.*?)(?=\n##|\Z)", PAGE, re.DOTALL)}
VIEWS = {"v_files", "v_pages", "v_failures", "v_daily", "v_throughput"}


def named(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def columns(section: str) -> list[str]:
    """What stands in the first column of a section's first table."""
    table = section.split("|---|---|", 1)[1].split("\n\n", 1)[0]
    return [
        name
        for line in table.splitlines()
        if line.startswith("|")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    ]


@pytest.fixture
def lived(clerk: Clerk) -> Clerk:
    clerk.finished(b"invoice.pdf", 2, text="Rechnung Nr. 4711")
    whole_life(clerk)
    clerk.do(runs.sample, clerk.run, MemorySample(host_rss=1), pages=3)
    return clerk


def test_every_query_runs(lived: Clerk) -> None:
    assert len(QUERIES) > 10
    with lived.reader() as reader:
        answers = {query: list(reader.query(query)[1]) for query in QUERIES}
    rechnung = next(answer for query, answer in answers.items() if "MATCH" in query)
    assert [(path, page) for path, page, _ in rechnung] == [
        ("/srv/scans/invoice.pdf", 2),
        ("/srv/scans/invoice.pdf", 1),
    ]
    (history,) = (answer for query, answer in answers.items() if "invoice.pdf" in query)
    assert len(history) == 6


def test_every_view_and_table_has_a_section(path: Path) -> None:
    with Reader(path) as reader:
        views = {row[0] for row in reader.query("SELECT name FROM sqlite_schema WHERE type = 'view'")[1]}
    assert views == VIEWS
    assert set(SECTIONS) == views | set(metadata.tables)


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_every_column_is_explained_in_its_order(path: Path, name: str) -> None:
    with Reader(path) as reader:
        there = [row[1] for row in reader.query(f"PRAGMA table_info({name})")[1]]
    told = columns(SECTIONS[name])
    assert sorted(told) == sorted(str(column) for column in there)


def test_every_state_is_explained() -> None:
    states = PAGE.split("## States", 1)[1].split("## Questions", 1)[0]
    told = set(re.findall(r"^\| `(\w+)` \|", states, re.MULTILINE))
    assert told == {*FileState, *PageState, *Delivery}


def test_every_event_is_listed(lived: Clerk) -> None:
    told = named(SECTIONS["events"])
    happened = {row[0] for row in lived.sql("SELECT DISTINCT event FROM events")}
    assert len(happened) >= 20
    assert happened <= told


def test_the_views_hold_what_they_promise(clerk: Clerk) -> None:
    clerk.finished(b"sub/a.pdf", 2)
    clerk.now += 86400
    clerk.finished(b"b.pdf")
    assert clerk.sql("SELECT name, path, inbox, state, pages, pages_done, current FROM v_files ORDER BY id") == [
        ("a.pdf", "/srv/scans/sub/a.pdf", "/srv/scans", "done", 2, 2, 1),
        ("b.pdf", "/srv/scans/b.pdf", "/srv/scans", "done", 1, 1, 1),
    ]
    assert clerk.sql("SELECT day, files_seen, files_done, pages, tokens_out FROM v_daily") == [
        ("2026-01-01", 1, 1, 2, 40),
        ("2026-01-02", 1, 1, 1, 20),
    ]
    assert clerk.sql("SELECT hour, engine, pages, pages_doubtful, seconds_per_page FROM v_throughput") == [
        ("2026-01-01 00:00", "null", 2, 0, 0.5),
        ("2026-01-02 00:00", "null", 1, 0, 0.5),
    ]


def test_failures_are_files_and_pages(clerk: Clerk) -> None:
    file = clerk.open(b"a.pdf", 2)
    one, two = clerk.claim_pages()
    clerk.finish(one)
    clerk.finish(two, state=PageState.SUSPECT)
    bad = clerk.drop(b"b.pdf")
    clerk.claim()
    clerk.do(arrivals.quarantine, bad, "encrypted")
    assert clerk.sql("SELECT file, page, state, reason FROM v_failures ORDER BY file") == [
        (file, 2, "suspect", "it looks odd"),
        (bad, None, "quarantined", "encrypted"),
    ]
