"""Files that wait for a first arrival of the same content: whatever happens to that one, none is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ledger.clerk import Clerk, written

from inboxd.core.lifecycle import FileState
from inboxd.ledger import arrivals, claims, deliveries, runs
from inboxd.model import Arrival, FileId, Gone, Kind


def family(clerk: Clerk, *, opened: bool = False) -> tuple[FileId, FileId, FileId]:
    """One that is on its way, and two that wait for it."""
    first = clerk.open(b"1.pdf", 2, "same") if opened else clerk.drop(b"1.pdf", "same")
    return first, clerk.drop(b"2.pdf", "same"), clerk.drop(b"3.pdf", "same")


def row(clerk: Clerk, file: FileId) -> tuple[str, int | None, str]:
    ((state, original, delivery),) = clerk.sql(
        "SELECT state, duplicate_of_id, delivery FROM v_files WHERE id = ?", file
    )
    return state, original, delivery


def owed(clerk: Clerk) -> list[FileId]:
    return clerk.owed(100)


def test_duplicates_get_outputs_of_their_own_once_the_first_is_done(clerk: Clerk) -> None:
    first, second, third = family(clerk, opened=True)
    assert owed(clerk) == []
    for page in clerk.claim_pages():
        clerk.finish(page, f"page {page.number}")
    assert owed(clerk) == [first]
    clerk.deliver(first, b"1.pdf")
    assert owed(clerk) == [second, third]
    with clerk.reader() as reader:
        reading = reader.reading(second)
        row_ = reader.file(second)
    assert (reading.file, reading.path, reading.duplicate_of) == (second, b"2.pdf", "/srv/scans/1.pdf")
    assert [page.text for page in reading.pages] == ["page 1", "page 2"]
    assert row_ is not None and row_.pages == 2
    clerk.deliver(second, b"2.pdf")
    assert row(clerk, second) == ("duplicate", first, "delivered")
    assert owed(clerk) == [third]


def vanish(clerk: Clerk, first: FileId) -> None:
    clerk.delete(b"1.pdf")


def replace(clerk: Clerk, first: FileId) -> None:
    clerk.see(b"1.pdf", "other")


def requeue(clerk: Clerk, first: FileId) -> None:
    assert clerk.do(runs.requeue, [first]) == 1


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("loss", [vanish, replace, requeue])
def test_when_the_first_goes_the_next_takes_its_place(clerk: Clerk, loss: object, opened: bool) -> None:
    first, second, third = family(clerk, opened=opened)
    assert callable(loss)
    loss(clerk, first)
    assert row(clerk, second) == ("settling", None, "none")
    assert row(clerk, third) == ("duplicate", second, "none")
    assert clerk.accept(second, "same").state is FileState.READY
    assert "promoted" in clerk.history(second)


def test_a_chain_of_losses(clerk: Clerk) -> None:
    _, second, third = family(clerk)
    clerk.delete(b"1.pdf")
    clerk.delete(b"2.pdf")
    assert clerk.state(second) is FileState.VANISHED
    assert row(clerk, third) == ("settling", None, "none")


def test_the_requeued_first_becomes_a_duplicate_of_the_one_that_took_its_place(clerk: Clerk) -> None:
    first, second, third = family(clerk)
    clerk.do(runs.requeue, [first])
    clerk.accept(second, "same")
    assert clerk.accept(first, "same") == arrivals.Accepted(FileState.DUPLICATE, second)
    assert row(clerk, third) == ("duplicate", second, "none")


def test_delivered_duplicates_of_a_requeued_original_stay(clerk: Clerk) -> None:
    first = clerk.finished(b"1.pdf", content="same")
    second = clerk.drop(b"2.pdf", "same")
    clerk.deliver(second, b"2.pdf")
    clerk.do(runs.requeue, [first])
    assert row(clerk, second) == ("duplicate", first, "delivered")
    assert clerk.accept(first, "same").state is FileState.READY


def test_an_undelivered_duplicate_of_a_done_file_is_read_itself_when_that_one_is_requeued(clerk: Clerk) -> None:
    first = clerk.finished(b"1.pdf", content="same")
    second = clerk.drop(b"2.pdf", "same")
    assert owed(clerk) == [second]
    clerk.do(runs.requeue, [first])
    assert owed(clerk) == []
    assert clerk.state(second) is FileState.SETTLING


def owed_two(clerk: Clerk) -> tuple[FileId, FileId, FileId]:
    """One that is done, and two whose outputs are owed with a reason: their folder is full."""
    first = clerk.finished(b"1.pdf", content="same")
    second, third = clerk.drop(b"2.pdf", "same"), clerk.drop(b"3.pdf", "same")
    for file in (second, third):
        clerk.do(deliveries.undelivered, file, "disk full", clerk.now)
    return first, second, third


def test_of_undelivered_duplicates_of_a_requeued_file_one_is_read_and_the_rest_wait_for_it(clerk: Clerk) -> None:
    first, second, third = owed_two(clerk)
    clerk.do(runs.requeue, [first])
    assert owed(clerk) == []
    assert row(clerk, third) == ("duplicate", second, "none")
    with clerk.reader() as reader:
        assert reader.counts().undeliverable == 0
    clerk.accept(second, "same")
    clerk.claim()
    clerk.do(claims.opened, second, 1)
    clerk.finish(clerk.claim_pages()[0], "read again")
    clerk.deliver(second, b"2.pdf")
    assert owed(clerk) == [third]


def test_nothing_is_owed_for_duplicates_that_end_in_quarantine(clerk: Clerk) -> None:
    first, second, third = owed_two(clerk)
    clerk.do(runs.requeue, [first])
    clerk.accept(second, "same")
    clerk.claim()
    clerk.do(arrivals.quarantine, second, "encrypted")
    assert row(clerk, third) == ("quarantined", second, "none")
    assert owed(clerk) == []


@pytest.mark.parametrize("end", ["", "quarantined"])
def test_what_an_earlier_version_left_owed_is_called_off(clerk: Clerk, end: str) -> None:
    first, second, third = owed_two(clerk)
    clerk.do(runs.requeue, [first])
    if end:
        clerk.accept(second, "same")
        clerk.claim()
        clerk.do(arrivals.quarantine, second, "encrypted")
    stay = clerk.finished(b"4.pdf"), clerk.drop(b"5.pdf", "4.pdf")
    clerk.spoil("UPDATE files SET delivery = 'owed', next_delivery_at = '' WHERE id = :id", id=third)
    assert owed(clerk) == [third, stay[1]]
    clerk.ledger.write_now(deliveries.call_off)
    assert owed(clerk) == [stay[1]]
    assert row(clerk, third) == (end or "duplicate", second, "none")


def test_duplicates_share_the_quarantine_of_content_that_cannot_be_read(clerk: Clerk) -> None:
    first, _second, third = family(clerk)
    clerk.claim()
    clerk.do(arrivals.quarantine, first, "encrypted")
    assert clerk.sql("SELECT state, reason FROM v_files") == [("quarantined", "encrypted")] * 3
    assert clerk.history(third)[-1] == "quarantined"


def test_a_quarantine_for_want_of_content_is_not_shared(clerk: Clerk) -> None:
    _first, second, third = family(clerk)
    clerk.delete(b"1.pdf")
    clerk.do(arrivals.quarantine, second, "incomplete")
    assert row(clerk, third) == ("settling", None, "none")


def test_the_one_that_took_its_place_turns_out_to_have_changed(clerk: Clerk) -> None:
    _, second, third = family(clerk)
    clerk.delete(b"1.pdf")
    assert clerk.accept(second, "something else").state is FileState.READY
    assert row(clerk, third) == ("settling", None, "none")


def test_one_that_turns_out_to_be_what_was_done_before_leaves_those_that_waited_for_it(
    clerk: Clerk,
) -> None:
    done = clerk.finished(b"1.pdf", content="old")
    newer = clerk.drop(b"1.pdf", "same")
    waits = clerk.drop(b"2.pdf", "same")
    clerk.do(arrivals.resettle, [newer], "its spool copy was lost")
    assert clerk.accept(newer, "old") == arrivals.Accepted(FileState.DONE, done)
    assert row(clerk, waits) == ("settling", None, "none")


def test_the_one_that_took_its_place_turns_out_to_be_ours(clerk: Clerk) -> None:
    _, second, third = family(clerk)
    clerk.delete(b"1.pdf")
    done = clerk.finished(b"x.pdf")
    assert done
    arrival = Arrival(second, clerk.signature(), Kind.PDF, written(b"x.pdf").sha256, Path("spool"))
    assert clerk.do(arrivals.accept, arrival).state is FileState.SKIPPED
    assert row(clerk, third) == ("settling", None, "none")


def test_a_duplicate_whose_path_has_newer_content_gets_no_outputs_of_the_old(clerk: Clerk) -> None:
    first = clerk.finished(b"1.pdf", content="same")
    second = clerk.drop(b"2.pdf", "same")
    assert owed(clerk) == [second]
    clerk.see(b"2.pdf", "newer")
    assert owed(clerk) == []
    assert row(clerk, second) == ("duplicate", first, "none")


def test_a_waiting_duplicate_whose_path_has_newer_content_is_not_promoted(clerk: Clerk) -> None:
    _first, second, third = family(clerk)
    clerk.see(b"2.pdf", "newer")
    clerk.delete(b"1.pdf")
    assert row(clerk, second)[0] == "duplicate"
    assert row(clerk, third) == ("settling", None, "none")


def test_pages_of_a_duplicate_are_found_through_a_chain(clerk: Clerk) -> None:
    first = clerk.finished(b"1.pdf", content="same", text="first reading")
    second = clerk.drop(b"2.pdf", "same")
    clerk.deliver(second, b"2.pdf")
    clerk.do(runs.requeue, [first])
    third = clerk.finished(b"3.pdf", content="same", text="second reading")
    assert clerk.accept(first, "same") == arrivals.Accepted(FileState.DUPLICATE, third)
    with clerk.reader() as reader:
        reading = reader.reading(second)
    assert [page.text for page in reading.pages] == ["second reading"]
    assert reading.duplicate_of == "/srv/scans/3.pdf"


def test_a_first_arrival_and_its_duplicate_are_replaced_in_one_scan(clerk: Clerk) -> None:
    first, second, third = family(clerk)
    clerk.do(arrivals.record, [clerk.sighting(b"1.pdf", "new one"), clerk.sighting(b"2.pdf", "new two")])
    assert clerk.state(first) is clerk.state(second) is FileState.VANISHED
    assert clerk.sql("SELECT current FROM v_files WHERE id IN (?, ?)", first, second) == [(0,), (0,)]
    assert row(clerk, third) == ("settling", None, "none")


def test_a_first_arrival_and_its_duplicate_are_deleted_at_once(clerk: Clerk) -> None:
    first, second, third = family(clerk)
    clerk.do(arrivals.gone, [Gone(clerk.inbox, b"1.pdf"), Gone(clerk.inbox, b"2.pdf")])
    assert clerk.state(first) is clerk.state(second) is FileState.VANISHED
    assert row(clerk, third) == ("settling", None, "none")


def test_an_original_that_was_moved_over_its_waiting_duplicate(clerk: Clerk) -> None:
    _, second, _ = family(clerk)
    clerk.delete(b"1.pdf")
    clerk.do(runs.requeue, [second])
    fourth = clerk.see(b"3.pdf", "same")  # what lay there waited for the second
    assert clerk.accept(fourth, "same").state is FileState.READY


def test_a_done_file_that_was_touched_before_it_was_in_the_archive(clerk: Clerk) -> None:
    file = clerk.read(content="same")
    clerk.do(deliveries.delivered, file, [], archiving=True)
    again = clerk.see(content="same")
    assert owed(clerk) == []
    assert clerk.accept(again, "same") == arrivals.Accepted(FileState.DONE, file)
    assert owed(clerk) == [file]
