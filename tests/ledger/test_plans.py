"""What runs for every file or page finds its rows by an index: no statement reads a whole table, or sorts one."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from sqlalchemy import event
from tests.ledger.clerk import INBOX, Clerk, written

from inboxd.core.lifecycle import FileState
from inboxd.ledger import arrivals, claims, copies, deliveries, runs, strays
from inboxd.model import FileId, Gone, MemorySample, PageState

_BOUNDED = {
    # Partial indexes over what is in hand, however large the ledger grows.
    "files_being_read",
    "files_ready",
    "files_ready_newest",
    "files_retrying",
    "files_owed",
    "pages_in_flight",
    "pages_alone",
    "pages_pending",
}
_SMALL = {"inboxes", "control", "runs", "numbers", "CONSTANT", "sqlite_sequence"}
_SCAN = re.compile(r"SCAN (?P<what>\w+)(?: USING (?:COVERING )?INDEX (?P<index>\w+))?")


def trouble(plan: list[str]) -> list[str]:
    """The steps of a plan that take longer the more files the ledger knows."""
    bad = [step for step in plan if "TEMP B-TREE" in step]
    for step in plan:
        scan = _SCAN.match(step)
        if scan and scan["what"] not in _SMALL and scan["index"] not in _BOUNDED:
            bad.append(step)
    return bad


@contextmanager
def watched(clerk: Clerk) -> Iterator[list[tuple[str, Any]]]:
    """Every statement that the verbs execute meanwhile, with its parameters."""
    seen: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, parameters: Any, ___: object, many: bool) -> None:
        seen.append((statement, parameters[0] if many else parameters))

    engine = clerk.ledger._connection.engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", note)


def explain(clerk: Clerk, statement: str, parameters: Any = ()) -> list[str]:
    with closing(sqlite3.connect(clerk.ledger.path)) as raw:
        return [str(row[3]) for row in raw.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]


@pytest.fixture
def busy(clerk: Clerk) -> Clerk:
    """A ledger with something in every state."""
    clerk.finished(b"done", 2)
    clerk.drop(b"copy", "done")
    clerk.read(b"complete")
    clerk.open(b"open", 4)
    clerk.drop(b"sub/ready")
    clerk.see(b"sub/settling")
    return clerk


def whole_life(clerk: Clerk) -> None:
    """All that the daemon does for a file and its pages, the usual and the unusual."""
    do = clerk.do
    sightings = [clerk.sighting(b"x/1"), clerk.sighting(b"x/2"), clerk.sighting(b"y/3")]
    one, two, three = (tracked.file for tracked in do(arrivals.record, sightings))
    do(arrivals.record, sightings)
    do(arrivals.waiting, one, "growing")
    clerk.accept(one, "one")
    clerk.accept(two, "one")
    clerk.accept(three, "three")
    do(arrivals.rename, three, b"y/4", clerk.signature())
    for claim in clerk.claim(10) + clerk.claim(10, newest=True):
        do(claims.opened, claim.file, 3)
    do(claims.desk_state)
    do(claims.waits_alone)
    clerk.ledger.write_now(copies.needed, "sha256")
    clerk.ledger.write_now(copies.backlog)
    pages = clerk.claim_pages(4)
    do(claims.admit, clerk.run, "null", [page.page for page in pages])
    do(claims.retry_page, pages[0].page, "again", clerk.now)
    do(claims.release_pages, [page.page for page in pages[1:2]], died=True)
    clerk.claim_pages(1, alone=True)
    while pages := clerk.claim_pages():
        for page in pages:
            clerk.finish(page)
    for file in clerk.owed(10):
        do(deliveries.undelivered, file, "disk full", clerk.now)
    for moves_only in (False, True):
        clerk.ledger.write_now(deliveries.hold, clerk.inbox, b"x", "disk full", clerk.now, moves_only=moves_only)
    clerk.ledger.write_now(deliveries.shut, clerk.inbox, "disk full")
    for file in clerk.owed(10):
        do(deliveries.delivered, file, [written(b"%d" % file)])
    do(deliveries.delivered, one, [], archiving=True)
    do(deliveries.archived, one, b"/archive/1")
    do(deliveries.delivered, one, [], archiving=True)
    do(deliveries.vanished, one, "deleted")
    clerk.ledger.write_now(deliveries.call_off)
    clerk.see(b"x/1", "newer")
    four = clerk.drop(b"z")
    clerk.claim(10)
    do(claims.retry_file, four, "later", clerk.now)
    do(arrivals.resettle, [four], "spool copy lost")
    do(arrivals.gone, [Gone(clerk.inbox, b"z"), Gone(clerk.inbox, b"x/1")])
    do(arrivals.quarantine, clerk.drop(b"bad"), "why")
    do(arrivals.skip, clerk.see(b"odd"), "why")
    do(runs.requeue, [two])
    do(runs.sample, clerk.run, MemorySample(host_rss=1))
    do(runs.inbox_state, clerk.inbox, "watching", "")
    do(runs.end_run, clerk.run, 0, "")
    clerk.start_run()
    do(strays.release_strays, clerk.run)


def test_no_verb_reads_a_whole_table(busy: Clerk) -> None:
    with watched(busy) as statements:
        whole_life(busy)
    assert len(statements) > 100
    plans = {statement: explain(busy, statement, parameters) for statement, parameters in statements}
    assert {statement: plan for statement, plan in plans.items() if trouble(plan)} == {}
    # Everything that is done, or that waits for a full disk, is in this one: it is for people.
    assert [statement for statement, plan in plans.items() if "files_state" in str(plan)] == []


QUESTIONS: dict[str, Callable[[Any], object]] = {
    "known": lambda reader: reader.known(1, b"sub"),
    "open folders": lambda reader: reader.open_folders(1),
    "find moved": lambda reader: reader.find_moved(1, reader.signature(1)),
    "outputs in": lambda reader: reader.outputs_in(INBOX),
    "written for": lambda reader: reader.written_for(1),
    "reading": lambda reader: reader.reading(1),
    "reading a duplicate": lambda reader: reader.reading(2),
    "file": lambda reader: reader.file(1),
    "files of a state": lambda reader: reader.files(state=FileState.SETTLING),
    "find by path": lambda reader: reader.find(INBOX + b"/done"),
    "history": lambda reader: reader.history(1),
    "pages": lambda reader: reader.pages(1),
    "events of a file": lambda reader: reader.events(1),
    "outputs": lambda reader: reader.outputs(1),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_of_the_rooms_reads_a_whole_table(busy: Clerk, question: str) -> None:
    assert plans_of(busy, QUESTIONS[question]) == {}


def plans_of(clerk: Clerk, ask: Callable[[Any], object]) -> dict[str, list[str]]:
    """The troublesome plans of what a reader executes."""
    statements: list[str] = []
    with clerk.reader() as reader:
        reader._connection.set_trace_callback(statements.append)
        ask(reader)
    ours = (statement for statement in statements if "pages_fts_" not in statement)  # not FTS5's own
    queries = [statement for statement in ours if statement.lstrip().startswith(("SELECT", "WITH"))]
    assert queries
    plans = {query: explain(clerk, query) for query in queries}
    return {query: plan for query, plan in plans.items() if trouble(plan)}


def test_counting_reads_one_narrow_index(busy: Clerk) -> None:
    assert list(plans_of(busy, lambda reader: reader.counts()).values()) == [
        ["SCAN files USING COVERING INDEX files_counts"]
    ]


def test_a_search_goes_through_its_index(busy: Clerk) -> None:
    plans = plans_of(busy, lambda reader: reader.search("some words"))
    ((first, *others),) = plans.values()
    assert first.startswith("SCAN t VIRTUAL TABLE INDEX")
    assert trouble(others) == []


@pytest.mark.parametrize("since", ["SELECT count(*) FROM pages WHERE finished > '2026-01-01 00:00:30.000'"])
def test_pace_is_read_from_an_index(busy: Clerk, since: str) -> None:
    assert trouble(explain(busy, since)) == []


def test_reports_read_pages_from_a_narrow_index(busy: Clerk) -> None:
    for view in ("v_throughput", "v_daily"):
        plan = explain(busy, f"SELECT * FROM {view}")
        assert any("pages USING COVERING INDEX pages_finished" in step for step in plan)


def test_statements_a_file(clerk: Clerk) -> None:
    """A budget: what a one-page file costs from sighting to done, apart from what batches share."""
    count = 50
    with watched(clerk) as statements:
        tracked = clerk.do(arrivals.record, [clerk.sighting(b"%d" % number) for number in range(count)])
        recorded = len(statements)
        for file in tracked:
            clerk.accept(file.file, f"{file.file}")
        for claim in clerk.claim(count):
            clerk.do(claims.opened, claim.file, 1)
        pages = clerk.claim_pages(count)
        claimed = len(statements)
        clerk.do(claims.admit, clerk.run, "null", [page.page for page in pages])
        for page in pages:
            clerk.finish(page)
            clerk.deliver(FileId(page.file), b"%d" % page.number)
    assert recorded <= 5
    assert (claimed - recorded) / count <= 3 + 4 + 1 + 1
    assert len(statements) / count <= 20
    assert clerk.sql("SELECT DISTINCT state FROM files") == [("done",)]
    assert PageState.OK in {row[0] for row in clerk.sql("SELECT state FROM pages")}
