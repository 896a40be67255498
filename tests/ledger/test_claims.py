"""Files and pages are claimed in order, finished once, retried when due, and put back when their holder is gone."""

from __future__ import annotations

import itertools

import pytest
from tests.ledger.clerk import Clerk, page_reading

from inboxd.core.lifecycle import FileState, IllegalMove
from inboxd.ledger import arrivals, claims, deliveries, runs, strays
from inboxd.ledger.claims import TURN, DeskState
from inboxd.ledger.strays import Strays
from inboxd.model import Box, Entry, InboxId, PageReading, PageState, Sighting


def test_files_are_claimed_in_the_order_of_arrival_and_counted(clerk: Clerk) -> None:
    files = [clerk.drop(name) for name in (b"a", b"b", b"c")]
    taken = clerk.claim(2)
    assert [claim.file for claim in taken] == files[:2]
    assert [(claim.path, claim.attempt, claim.deaths) for claim in taken] == [(b"a", 1, 0), (b"b", 1, 0)]
    assert [claim.file for claim in clerk.claim(5)] == files[2:]
    assert clerk.claim(5) == [] and clerk.claim(0) == []


def test_the_newest_first_on_demand(clerk: Clerk) -> None:
    files = [clerk.drop(name) for name in (b"a", b"b", b"c")]
    assert [claim.file for claim in clerk.claim(1, newest=True)] == [files[2]]
    assert [claim.file for claim in clerk.claim(1)] == [files[0]]


def test_a_higher_priority_goes_first_also_when_it_changes_later(clerk: Clerk) -> None:
    slow = clerk.drop(b"a")
    urgent: InboxId = clerk.do(runs.inbox, b"/srv/urgent", priority=5)
    (tracked,) = clerk.do(arrivals.record, [Sighting(urgent, b"b", Entry.FILE, clerk.signature())])
    clerk.accept(tracked.file, "b")
    assert [claim.file for claim in clerk.claim(1)] == [tracked.file]
    clerk.do(claims.release_files, [tracked.file])
    clerk.do(runs.inbox, b"/srv/scans", priority=9)
    assert [claim.file for claim in clerk.claim(2)] == [slow, tracked.file]


def test_a_retry_is_claimed_when_it_is_due(clerk: Clerk) -> None:
    file = clerk.drop()
    clerk.claim()
    clerk.do(claims.retry_file, file, "out of memory", clerk.now + 100, died=True)
    with clerk.reader() as reader:
        row = reader.file(file)
    assert row is not None and (row.state, row.reason) == (FileState.RETRYING, "out of memory")
    assert clerk.claim() == []
    clerk.now += 100
    (again,) = clerk.claim()
    assert (again.file, again.attempt, again.deaths) == (file, 2, 1)


def test_pages_come_in_order(clerk: Clerk) -> None:
    file = clerk.open(count=5)
    taken = clerk.claim_pages(3)
    assert [(page.file, page.number, page.attempt, page.deaths) for page in taken] == [
        (file, number, 1, 0) for number in (1, 2, 3)
    ]
    assert [page.number for page in clerk.claim_pages(3)] == [4, 5]
    assert clerk.claim_pages(3) == [] and clerk.claim_pages(0) == []


def test_small_documents_overtake_large_ones(clerk: Clerk) -> None:
    large = clerk.open(b"large", 1000)
    assert len(clerk.claim_pages(10)) == 10
    small = clerk.open(b"small", 3)
    other = clerk.open(b"other", 2)
    taken = [(page.file, page.number) for page in clerk.claim_pages(8)]
    assert taken[:5] == [(small, 1), (small, 2), (small, 3), (other, 1), (other, 2)]
    assert taken[5:] == [(large, number) for number in (11, 12, 13)]


def test_large_documents_take_turns(clerk: Clerk) -> None:
    one, two = clerk.open(b"one", 20), clerk.open(b"two", 20)
    taken = [page.file for page in clerk.claim_pages(5) + clerk.claim_pages(35)]
    turns = [(file, len(list(pages))) for file, pages in itertools.groupby(taken)]
    assert turns == [(one, TURN), (two, TURN), (one, TURN), (two, TURN), (one, 4), (two, 4)]


def test_pages_of_a_higher_priority_go_first(clerk: Clerk) -> None:
    clerk.open(b"a", 2)
    urgent: InboxId = clerk.do(runs.inbox, b"/srv/urgent", priority=1)
    (tracked,) = clerk.do(arrivals.record, [Sighting(urgent, b"b", Entry.FILE, clerk.signature())])
    clerk.accept(tracked.file, "b")
    clerk.claim()
    clerk.do(claims.opened, tracked.file, 3)
    assert [page.file for page in clerk.claim_pages(3)] == [tracked.file] * 3


def test_a_last_page_makes_the_file_complete(clerk: Clerk) -> None:
    file = clerk.open(count=3)
    one, two, three = clerk.claim_pages()
    assert not clerk.finish(two)
    assert not clerk.finish(one, "", PageState.BLANK)
    assert clerk.finish(three, "odd", PageState.SUSPECT)
    with clerk.reader() as reader:
        reading = reader.reading(file)
        row = reader.file(file)
    assert [page.state for page in reading.pages] == [PageState.BLANK, PageState.OK, PageState.SUSPECT]
    assert row is not None and (row.state, row.delivery, row.pages_done) == (FileState.READING, "owed", 3)
    assert clerk.history(file)[-2:] == ["page suspect", "read"]


def test_everything_about_a_page_is_kept(clerk: Clerk) -> None:
    file = clerk.open()
    (page,) = clerk.claim_pages()
    batch = clerk.do(claims.admit, clerk.run, "vllm", [page.page])
    said = PageReading(
        number=1,
        state=PageState.OK,
        reason="",
        text="Zeile\nzwei \U0001f600 中文",
        width=1088,
        height=1540,
        engine="vllm",
        model="LightOnOCR-2-1B",
        attempts=1,
        seconds=2.5,
        confidence=0.75,
        finish="stop",
        tokens_in=1000,
        tokens_out=700,
        turned=90,
        boxes=(Box("Zeile", 0.5, 1.0, 2.0, 3.5, 4.0),),
    )
    clerk.do(
        claims.finish_page,
        page.page,
        said,
        batch=batch,
        render_s=0.25,
        queue_s=0.5,
        first_token_s=0.125,
        mean_logprob=-0.5,
        ink=0.0625,
    )
    with clerk.reader() as reader:
        assert reader.reading(file).pages == (said,)
    assert clerk.sql(
        "SELECT batch, render_s, queue_s, first_token_s, read_s, mean_logprob, ink, chars FROM v_pages"
    ) == [(batch, 0.25, 0.5, 0.125, 2.25, -0.5, 0.0625, len(said.text))]
    assert clerk.sql("SELECT run, engine, pages FROM batches") == [(clerk.run, "vllm", 1)]


def test_a_page_is_finished_once(clerk: Clerk) -> None:
    file = clerk.open()
    (page,) = clerk.claim_pages()
    assert clerk.finish(page, "first")
    assert not clerk.finish(page, "second")
    with clerk.reader() as reader:
        assert [page.text for page in reader.reading(file).pages] == ["first"]


def test_a_page_ends_in_a_final_state(clerk: Clerk) -> None:
    clerk.open()
    (page,) = clerk.claim_pages()
    with pytest.raises(IllegalMove):
        clerk.do(claims.finish_page, page.page, page_reading(state=PageState.PENDING))


def test_a_result_for_a_file_that_has_gone_is_dropped(clerk: Clerk) -> None:
    clerk.open(count=2)
    one, two = clerk.claim_pages()
    clerk.delete(b"a.pdf")
    assert not clerk.finish(one)
    clerk.do(claims.retry_page, two.page, "too late", clerk.now)
    clerk.do(claims.release_pages, [one.page, two.page], died=True)
    assert clerk.sql("SELECT DISTINCT state, attempts, deaths FROM pages") == [("pending", 0, 0)]


def test_a_page_is_retried_when_due(clerk: Clerk) -> None:
    file = clerk.open()
    (page,) = clerk.claim_pages()
    clerk.do(claims.retry_page, page.page, "the engine refused it", clerk.now + 50)
    assert clerk.claim_pages() == []
    clerk.now += 50
    (again,) = clerk.claim_pages()
    assert (again.page, again.attempt, again.deaths) == (page.page, 2, 0)
    assert clerk.history(file)[-1] == "page retried"


def test_released_pages_do_not_count_unless_a_process_died(clerk: Clerk) -> None:
    file = clerk.open(count=2)
    one, two = clerk.claim_pages()
    clerk.do(claims.release_pages, [one.page], died=False)
    clerk.do(claims.release_pages, [two.page], died=True)
    again = clerk.claim_pages()
    assert [(page.number, page.attempt, page.deaths) for page in again] == [(1, 1, 0), (2, 2, 1)]
    assert clerk.history(file)[-1] == "page died"


def test_a_page_that_two_processes_died_with_is_read_alone(clerk: Clerk) -> None:
    clerk.open(count=3)
    for _ in range(2):
        pages = clerk.claim_pages()
        clerk.do(claims.retry_page, pages[0].page, "died", clerk.now, died=True)
        clerk.do(claims.release_pages, [page.page for page in pages[1:]], died=False)
    assert [page.number for page in clerk.claim_pages()] == [2, 3]
    assert clerk.claim_pages() == []
    (alone,) = clerk.claim_pages(1, alone=True)
    assert (alone.number, alone.deaths, alone.attempt) == (1, 2, 3)
    assert clerk.claim_pages(1, alone=True) == []


def test_many_pages_are_laid_out_at_once(clerk: Clerk) -> None:
    clerk.open(count=20_000)
    assert clerk.sql("SELECT count(*), min(number), max(number) FROM pages") == [(20_000, 1, 20_000)]
    assert len(clerk.claim_pages(600)) == 600


def test_a_document_without_pages_is_no_document(clerk: Clerk) -> None:
    file = clerk.drop()
    clerk.claim()
    with pytest.raises(ValueError, match="without pages"):
        clerk.do(claims.opened, file, 0)


def test_the_desk_knows_what_lies_open(clerk: Clerk) -> None:
    clerk.read(b"c")  # waits for its outputs only
    clerk.open(b"a", 3)
    clerk.open(b"b", 2)
    clerk.do(claims.release_pages, [page.page for page in clerk.claim_pages(1)], died=False)
    (late,) = clerk.claim_pages(1)
    clerk.do(claims.retry_page, late.page, "later", clerk.now + 500)
    assert clerk.do(claims.desk_state) == DeskState(paused=False, open_files=2, pending_pages=4)
    clerk.do(runs.pause, True)
    assert clerk.do(claims.desk_state).paused


# ------------------------------------------------------------------------------------------ lives of the daemon


def test_what_a_dead_life_held_goes_back_and_is_taken_up_at_its_page(clerk: Clerk) -> None:
    file = clerk.open(count=3)
    opening = clerk.drop(b"opening")
    clerk.claim()
    pages = clerk.claim_pages(2)
    clerk.finish(pages[0], "kept")
    clerk.start_run()
    assert clerk.do(strays.release_strays, clerk.run) == Strays(files=2, pages=1)
    assert clerk.do(strays.release_strays, clerk.run) == Strays(files=0, pages=0)
    again = {claim.file: claim for claim in clerk.claim(5)}
    assert (again[file].attempt, again[file].deaths) == (1, 0)  # it was open: not to blame
    assert (again[opening].attempt, again[opening].deaths) == (1, 0)  # nor that: it was opened in another process
    assert not clerk.do(claims.opened, file, 3)
    assert [(page.number, page.attempt, page.deaths) for page in clerk.claim_pages()] == [(2, 1, 0), (3, 1, 0)]


def test_pages_left_by_an_earlier_life_wait_until_their_file_is_open_again(clerk: Clerk) -> None:
    """They could be read and delivered meanwhile, and the spool copy cleared away under the renderer that opens it."""
    file = clerk.open(count=2)
    clerk.start_run()
    clerk.do(strays.release_strays, clerk.run)
    clerk.claim()
    assert clerk.claim_pages() == []
    assert clerk.do(claims.desk_state).pending_pages == 0
    clerk.do(claims.opened, file, 2)
    assert [page.number for page in clerk.claim_pages()] == [1, 2]


def test_a_death_counts_for_pages_in_an_engine_that_shared_the_dead_process(clerk: Clerk) -> None:
    clerk.open(count=3)
    inside, isolated, _waiting = clerk.claim_pages(3)
    clerk.do(claims.admit, clerk.run, "inside", [inside.page])
    clerk.do(claims.admit, clerk.run, "apart", [isolated.page], isolated=True)
    clerk.start_run()
    assert clerk.do(strays.release_strays, clerk.run) == Strays(files=1, pages=3)
    (file,) = clerk.claim(1)
    clerk.do(claims.opened, file.file, 3)
    assert [(page.attempt, page.deaths) for page in clerk.claim_pages()] == [(2, 1), (1, 0), (1, 0)]


def test_a_file_whose_pages_were_all_read_waits_for_its_outputs_only(clerk: Clerk) -> None:
    file = clerk.read(count=2)
    clerk.start_run()
    assert clerk.do(strays.release_strays, clerk.run) == Strays(files=0, pages=0)
    assert clerk.claim() == []
    assert clerk.deliver(file, b"a.pdf")


def test_a_file_of_which_no_page_could_be_read_is_quarantined(clerk: Clerk) -> None:
    file = clerk.open(count=2)
    first, second = clerk.claim_pages(2)
    assert not clerk.finish(first, "", PageState.FAILED)
    assert clerk.finish(second, "", PageState.FAILED)
    assert clerk.state(file) is FileState.QUARANTINED
    assert clerk.owed(10) == []


def test_one_readable_page_is_enough_to_deliver(clerk: Clerk) -> None:
    file = clerk.open(count=2)
    first, second = clerk.claim_pages(2)
    clerk.finish(first, "", PageState.FAILED)
    assert clerk.finish(second, "text")
    assert clerk.owed(10) == [file]


def test_an_orderly_end_counts_nothing(clerk: Clerk) -> None:
    file = clerk.open(count=2)
    opening = clerk.drop(b"opening")
    clerk.claim()
    clerk.claim_pages()
    clerk.do(runs.end_run, clerk.run, 0, "stopped")
    clerk.start_run()
    assert clerk.do(strays.release_strays, clerk.run) == Strays(files=0, pages=0)
    assert {claim.file: (claim.attempt, claim.deaths) for claim in clerk.claim(5)} == {file: (1, 0), opening: (1, 0)}
    clerk.do(claims.opened, file, 2)
    assert [(page.attempt, page.deaths) for page in clerk.claim_pages()] == [(1, 0), (1, 0)]


def test_a_clock_that_was_set_back_holds_nothing_up(clerk: Clerk) -> None:
    owed = clerk.read(b"owed")
    clerk.do(deliveries.undelivered, owed, "disk full", clerk.now + 30)
    last = clerk.read(b"last")
    paged = clerk.open(b"paged", 2)
    (page,) = clerk.claim_pages(1)
    clerk.do(claims.retry_page, page.page, "odd", clerk.now + 30)
    retrying = clerk.drop(b"retrying")
    clerk.claim()
    clerk.do(claims.retry_file, retrying, "odd", clerk.now + 30)
    clerk.now -= 7200
    assert clerk.owed(10) == [last]
    clerk.start_run()
    clerk.do(strays.release_strays, clerk.run)
    assert set(clerk.owed(10)) == {owed, last}
    assert {claim.path for claim in clerk.claim(10)} == {b"paged", b"retrying"}
    clerk.do(claims.opened, paged, 2)
    assert [page.number for page in clerk.claim_pages()] == [1, 2]


def test_nor_does_one_that_is_set_back_in_the_middle_of_a_life(clerk: Clerk) -> None:
    owed = clerk.read(b"owed")
    clerk.do(deliveries.undelivered, owed, "disk full", clerk.now + 30)
    clerk.open(b"paged")
    (page,) = clerk.claim_pages(1)
    clerk.do(claims.retry_page, page.page, "odd", clerk.now + 30)
    retrying = clerk.drop(b"retrying")
    clerk.claim()
    clerk.do(claims.retry_file, retrying, "odd", clerk.now + 30)
    clerk.now -= 7200
    assert (clerk.owed(10), clerk.claim(10), clerk.claim_pages()) == ([], [], [])
    clerk.do(strays.try_at_once)
    assert clerk.owed(10) == [owed]
    assert [claim.file for claim in clerk.claim(10)] == [retrying]
    assert [claim.page for claim in clerk.claim_pages()] == [page.page]


def test_pages_read_before_are_told_when_all_of_them_are(clerk: Clerk) -> None:
    file = clerk.read(count=2)
    clerk.do(arrivals.resettle, [file], "its spool copy was lost")
    clerk.accept(file, "a.pdf")
    clerk.claim()
    assert clerk.do(claims.opened, file, 2)
    assert clerk.deliver(file, b"a.pdf")


def test_a_document_that_has_fewer_pages_now(clerk: Clerk) -> None:
    file = clerk.open(count=3)
    clerk.do(arrivals.resettle, [file], "")
    clerk.accept(file, "a.pdf")
    clerk.claim()
    clerk.do(claims.opened, file, 2)
    assert [page.number for page in clerk.claim_pages()] == [1, 2]


def test_a_document_that_has_fewer_pages_now_and_all_of_them_are_read(clerk: Clerk) -> None:
    file = clerk.read(count=3)
    clerk.do(arrivals.resettle, [file], "")
    clerk.accept(file, "a.pdf")
    clerk.claim()
    assert clerk.do(claims.opened, file, 2)
    with clerk.reader() as reader:
        assert len(reader.reading(file).pages) == 2
