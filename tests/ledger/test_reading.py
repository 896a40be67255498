"""What rooms and people read of the ledger; and that no reader can write."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest
from tests.ledger.clerk import INBOX, Clerk, digest

from inboxd.core.lifecycle import FileState
from inboxd.errors import UsageError
from inboxd.ledger import arrivals, deliveries
from inboxd.ledger.reading import Reader
from inboxd.model import FileId, PageState


def test_counts_of_everything(clerk: Clerk) -> None:
    clerk.finished(b"done", 3)
    clerk.do(deliveries.undelivered, clerk.read(b"stuck", 2), "the disk is full", clerk.now + 60)
    clerk.read(b"complete")
    clerk.open(b"open", 5)
    clerk.claim_pages(2)
    clerk.drop(b"ready")
    clerk.see(b"settling")
    clerk.drop(b"copy", "done")
    with clerk.reader() as reader:
        counts = reader.counts()
    assert counts.files == dict.fromkeys(FileState, 0) | {
        FileState.DONE: 1,
        FileState.READING: 3,
        FileState.READY: 1,
        FileState.SETTLING: 1,
        FileState.DUPLICATE: 1,
    }
    assert (counts.pages_done, counts.pages_open, counts.pages_in_flight) == (3 + 2 + 1, 5, 2)
    # open: complete, open, ready, settling, and the duplicate that is owed its outputs; not the one that is stuck
    assert (counts.open, counts.owed, counts.undeliverable) == (5, 3, 1)
    assert not counts.paused


def test_counts_of_an_empty_ledger(path: Path) -> None:
    with Reader(path) as reader:
        counts = reader.counts()
    assert (counts.open, counts.pages_done, counts.pages_open) == (0, 0, 0)


def test_files_by_state_and_inbox_newest_first(clerk: Clerk) -> None:
    first, second = clerk.finished(b"a"), clerk.finished(b"b")
    ready = clerk.drop(b"c")
    with clerk.reader() as reader:
        assert [row.id for row in reader.files()] == [ready, second, first]
        assert [row.id for row in reader.files(state=FileState.DONE)] == [second, first]
        assert [row.id for row in reader.files(state=FileState.DONE, limit=1)] == [second]
        assert len(reader.files(inbox=INBOX.decode(), limit=-1)) == 3
        assert reader.files(inbox="/elsewhere") == []


def test_earlier_versions_are_listed_on_demand(clerk: Clerk) -> None:
    old = clerk.finished(content="one")
    new = clerk.see(content="two")
    with clerk.reader() as reader:
        assert [row.id for row in reader.files()] == [new]
        assert [row.id for row in reader.files(all_versions=True)] == [new, old]


def test_a_file_is_found_by_id_path_or_end_of_path(clerk: Clerk) -> None:
    scan = clerk.drop(b"mail/scan.pdf")
    other = clerk.drop(b"post/scan.pdf")
    odd = clerk.drop(b"caf\xe9 100%_.pdf")
    with clerk.reader() as reader:

        def found(what: str | bytes) -> list[FileId]:
            return [row.id for row in reader.find(what)]

        assert found(str(scan)) == [scan]
        assert found("/srv/scans/mail/scan.pdf") == [scan]
        assert found(b"/srv/scans/mail/scan.pdf") == [scan]
        assert found("scan.pdf") == [other, scan]
        assert found("mail/scan.pdf") == [scan]
        assert found("can.pdf") == [] and found("mail") == [] and found("") == []
        assert found(b"/srv/scans/caf\xe9 100%_.pdf") == [odd]
        assert found("caf\udce9 100%_.pdf") == [odd]  # as Python hands over arguments that are not UTF-8
        assert found("caf\\xe9 100%_.pdf") == [odd]  # as it is shown
        assert found(b"/srv/scans") == [] and found(b"relative") == []


def test_pages_and_events(clerk: Clerk) -> None:
    file = clerk.open(count=2)
    one, two = clerk.claim_pages()
    clerk.finish(one, "four")
    with clerk.reader() as reader:
        first, second = reader.pages(file)
        assert (first.number, first.state, first.chars, first.engine) == (1, PageState.OK, 4, "null")
        assert (second.number, second.state, second.finished) == (2, PageState.IN_FLIGHT, None)
        assert [row.event for row in reader.events(file)] == ["seen", "ready", "claimed", "opened"]
        assert [row.event for row in reader.events(file, limit=2)] == ["claimed", "opened"]
        assert [row.event for row in reader.events(limit=1)] == ["opened"]
    assert two.number == 2


def test_a_reading_is_whole_or_not_at_all(clerk: Clerk) -> None:
    file = clerk.open(count=2)
    with clerk.reader() as reader:
        for unknown in (file, FileId(999)):
            with pytest.raises(LookupError):
                reader.reading(unknown)
        with pytest.raises(LookupError):
            reader.signature(FileId(999))
        clerk.finish(clerk.claim_pages(1)[0])
        with pytest.raises(LookupError, match="not all pages"):
            reader.reading(file)
        clerk.finish(clerk.claim_pages(1)[0])
        reading = reader.reading(file)
    assert (reading.path, reading.sha256, reading.duplicate_of) == (b"a.pdf", digest("a.pdf"), "")


def test_times_are_text_that_sqlite_understands(clerk: Clerk) -> None:
    clerk.finished()
    ((first_seen, finished, seconds, epoch),) = clerk.sql(
        "SELECT first_seen, finished, seconds, strftime('%s', first_seen) FROM v_files"
    )
    assert first_seen == "2026-01-01 00:00:03.000" and finished > first_seen
    assert int(epoch) == 1767225603 and seconds == 6.0


def test_others_commits_are_noticed(clerk: Clerk) -> None:
    with clerk.reader() as reader:
        before = reader.data_version()
        assert reader.data_version() == before
        clerk.see()
        assert reader.data_version() != before


# ------------------------------------------------------------------------------------------ people's own SQL


def test_a_query_streams(clerk: Clerk) -> None:
    with clerk.reader() as reader:
        columns, rows = reader.query(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, i * 2 AS twice FROM n"
        )
        assert columns == ("i", "twice")
        assert [next(rows), next(rows)] == [(1, 2), (2, 4)]


def test_a_query_can_be_interrupted(clerk: Clerk) -> None:
    with clerk.reader() as reader:
        _, rows = reader.query("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n")
        next(rows)
        threading.Thread(target=reader.interrupt).start()
        with pytest.raises(UsageError, match="interrupted"):
            for _ in rows:
                pass
        assert reader.counts().open == 0  # and is good for the next


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO control VALUES ('a', 'b', 'c')",
        "UPDATE files SET state = 'done'",
        "DELETE FROM files",
        "DROP TABLE files",
        "CREATE TABLE mine (x)",
        "CREATE TEMP TABLE mine (x)",
        "ATTACH '{path}' AS other",
        "VACUUM",
        "VACUUM INTO '{path}'",
        "PRAGMA query_only = OFF",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = ''",
        "INSERT INTO pages_fts (pages_fts) VALUES ('rebuild')",
        "SELECT load_extension('{path}')",
        "SELECT 1; DELETE FROM files",
        "BEGIN",
        "SAVEPOINT a",
        "REINDEX",
        "ANALYZE",
        "",
        "-- nothing",
        "SELECT nonsense",
        "SELECT 1 WHERE",
        "SELECT \0",
        "SELECT '\udce9'",
        "SELECT ?",
    ],
)
def test_a_reader_cannot_write_and_says_what_is_wrong(clerk: Clerk, tmp_path: Path, sql: str) -> None:
    clerk.see()
    target = tmp_path / "target.sqlite"
    with clerk.reader() as reader:
        with pytest.raises(UsageError) as caught:
            list(reader.query(sql.replace("{path}", str(target)))[1])
        assert caught.value.what and caught.value.advice
        assert list(reader.query("SELECT state FROM files")[1]) == [("settling",)]
    assert not target.exists()


def test_the_file_itself_is_opened_read_only(clerk: Clerk) -> None:
    with clerk.reader() as reader:
        reader._connection.set_authorizer(None)
        reader._connection.execute("PRAGMA query_only = OFF")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._connection.execute("DELETE FROM files")


def test_a_reader_may_be_closed_twice(path: Path) -> None:
    reader = Reader(path)
    reader.close()
    reader.close()


def test_a_reader_works_where_nobody_writes(clerk: Clerk) -> None:
    file = clerk.finished()
    clerk.ledger.close()
    with Reader(clerk.ledger.path) as reader:
        assert reader.reading(file).path == b"a.pdf"


def test_many_names_in_one_batch(clerk: Clerk) -> None:
    sightings = [clerk.sighting(b"x/%d.pdf" % number) for number in range(1700)]
    clerk.do(arrivals.record, sightings)
    assert len(clerk.do(arrivals.record, sightings)) == 1700
    with clerk.reader() as reader:
        assert len(reader.known(clerk.inbox, b"x")) == 1700
