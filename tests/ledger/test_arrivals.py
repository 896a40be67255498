"""From a sighting to a file that is ready, a duplicate, or not for us."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ledger.clerk import INBOX, Clerk, digest, written

from inboxd.core.lifecycle import FileState, IllegalMove
from inboxd.ledger import arrivals, claims, copies, runs
from inboxd.model import Arrival, Entry, FileId, Gone, InboxId, Kind, Sighting, Signature


def test_an_unknown_path_gets_a_row_that_settles(clerk: Clerk) -> None:
    sightings = [clerk.sighting(b"a.pdf"), clerk.sighting(b"deep/er/b.pdf"), clerk.sighting(b"deep/c.pdf")]
    tracked = clerk.do(arrivals.record, sightings)
    assert sorted(t.sighting.path for t in tracked) == [b"a.pdf", b"deep/c.pdf", b"deep/er/b.pdf"]
    with clerk.reader() as reader:
        known = reader.known(clerk.inbox, b"deep/er")
        assert set(known) == {b"b.pdf"}
        assert known[b"b.pdf"].signature == sightings[1].signature
        assert known[b"b.pdf"].state is FileState.SETTLING
        assert set(reader.known(clerk.inbox, b"")) == {b"a.pdf"}
        assert reader.open_folders(clerk.inbox) == {b"", b"deep", b"deep/er"}


def test_names_are_bytes(clerk: Clerk) -> None:
    names = [b"caf\xe9.pdf", b"a\nb.pdf", "é.pdf".encode(), "e\u0301.pdf".encode(), b"\xff" * 255, b" "]
    clerk.do(arrivals.record, [clerk.sighting(name) for name in names])
    with clerk.reader() as reader:
        assert set(reader.known(clerk.inbox, b"")) == set(names)
        paths = [row.path for row in reader.files()]
    assert all("\n" not in path for path in paths)
    assert "/srv/scans/caf\\xe9.pdf" in paths


def test_numbers_that_no_signed_word_holds_come_back_equal(clerk: Clerk) -> None:
    signature = Signature(1, 2**64 - 5, -(2**63) - 1, 2**64 - 1)
    clerk.do(arrivals.record, [Sighting(clerk.inbox, b"a.pdf", Entry.FILE, signature)])
    with clerk.reader() as reader:
        assert reader.known(clerk.inbox, b"")[b"a.pdf"].signature == signature


def test_a_settling_file_that_grows_keeps_its_row(clerk: Clerk) -> None:
    file = clerk.see(b"a.pdf", "half")
    assert clerk.see(b"a.pdf", "whole") == file
    with clerk.reader() as reader:
        assert reader.known(clerk.inbox, b"")[b"a.pdf"].signature.size == len("whole")
    assert clerk.history(file) == ["seen"]


def test_a_settling_file_seen_again_unchanged_is_returned_again(clerk: Clerk) -> None:
    sighting = clerk.sighting(b"a.pdf")
    first = clerk.do(arrivals.record, [sighting])
    assert clerk.do(arrivals.record, [sighting]) == first


def test_the_same_path_twice_in_one_batch_is_one_row(clerk: Clerk) -> None:
    tracked = clerk.do(arrivals.record, [clerk.sighting(b"a.pdf", "old"), clerk.sighting(b"a.pdf", "newer")])
    assert [t.sighting.signature.size for t in tracked] == [len("newer")]


@pytest.mark.parametrize("entry", [entry for entry in Entry if entry is not Entry.FILE])
def test_what_is_no_file_is_skipped_with_a_reason(clerk: Clerk, entry: Entry) -> None:
    assert clerk.do(arrivals.record, [clerk.sighting(b"a.pdf", entry=entry)]) == []
    assert clerk.do(arrivals.record, [clerk.sighting(b"a.pdf", entry=entry)]) == []
    ((state, reason, finished),) = clerk.sql("SELECT state, reason, finished FROM v_files")
    assert state == "skipped" and str(entry) in reason and finished


def test_a_link_that_becomes_a_file_settles(clerk: Clerk) -> None:
    clerk.do(arrivals.record, [clerk.sighting(b"a.pdf", entry=Entry.SYMLINK)])
    file = clerk.see(b"a.pdf")
    assert clerk.state(file) is FileState.SETTLING


def test_new_content_at_the_path_of_a_done_file_is_a_new_version(clerk: Clerk) -> None:
    old = clerk.finished(content="one")
    new = clerk.see(content="two")
    assert new != old
    with clerk.reader() as reader:
        assert [(row.id, row.current) for row in reader.history(new)] == [(old, False), (new, True)]
        assert reader.history(old) == reader.history(new)
    assert clerk.accept(new, "two").state is FileState.READY


def test_new_content_replaces_a_file_that_is_being_read(clerk: Clerk) -> None:
    old = clerk.open(count=3, content="one")
    clerk.claim_pages(2)
    new = clerk.see(content="two")
    assert clerk.state(old) is FileState.VANISHED
    assert clerk.state(new) is FileState.SETTLING
    assert clerk.sql("SELECT count(*) FROM pages WHERE state = 'in_flight'") == [(0,)]
    with clerk.reader() as reader:
        row = reader.file(old)
    assert row is not None and row.reason == "replaced by newer content"


def test_a_deleted_file_has_vanished_and_comes_back(clerk: Clerk) -> None:
    sighting = clerk.sighting(b"a.pdf")
    (tracked,) = clerk.do(arrivals.record, [sighting])
    clerk.delete(b"a.pdf")
    assert clerk.state(tracked.file) is FileState.VANISHED
    assert clerk.do(arrivals.record, [sighting]) == [tracked]
    assert clerk.state(tracked.file) is FileState.SETTLING


def test_deleting_a_finished_file_changes_nothing(clerk: Clerk) -> None:
    file = clerk.finished()
    clerk.delete(b"a.pdf")
    clerk.do(arrivals.gone, [Gone(clerk.inbox, b"never/seen.pdf")])
    assert clerk.state(file) is FileState.DONE


def test_files_of_an_inbox_that_is_not_configured_vanish_until_they_are_seen_again(clerk: Clerk) -> None:
    other = clerk.do(runs.inbox, b"/srv/other")
    reading = clerk.open(b"reading", 2)
    clerk.finish(clerk.claim_pages(1)[0])
    owed, done = clerk.read(b"owed"), clerk.finished(b"done")
    ready, settling = clerk.drop(b"ready"), clerk.see(b"settling")
    assert clerk.do(arrivals.unwatched, [clerk.inbox, other], "why") == 0
    assert [clerk.do(arrivals.unwatched, [other], "why", limit=3) for _ in range(3)] == [3, 1, 0]
    files = (reading, owed, ready, settling)
    assert [clerk.state(file) for file in files] == [FileState.VANISHED] * 4
    assert clerk.sql("SELECT DISTINCT reason FROM files WHERE state = 'vanished'") == [("why",)]
    assert clerk.state(done) is FileState.DONE
    with clerk.reader() as reader:
        assert (reader.counts().open, reader.counts().owed, reader.spooled()) == (0, 0, [])
        signature = reader.signature(reading)
    seen = Sighting(clerk.inbox, b"reading", Entry.FILE, signature)
    assert [tracked.file for tracked in clerk.do(arrivals.record, [seen])] == [reading]
    clerk.accept(reading, "reading")
    assert [claim.file for claim in clerk.claim()] == [reading]
    assert not clerk.do(claims.opened, reading, 2)
    assert [page.number for page in clerk.claim_pages()] == [2], "what was read is not read again"


def test_a_copy_of_what_vanished_with_its_inbox_is_read_in_its_place(clerk: Clerk) -> None:
    gone = [clerk.drop(b"a", "same"), clerk.drop(b"b", "same")]
    clerk.inbox = clerk.do(runs.inbox, b"/srv/other")
    here = clerk.drop(b"c", "same")
    while clerk.do(arrivals.unwatched, [clerk.inbox], "why"):
        pass
    assert [clerk.state(file) for file in gone] == [FileState.VANISHED] * 2
    assert clerk.state(here) is FileState.SETTLING


def test_the_reason_to_wait_is_written_down_when_it_changes(clerk: Clerk) -> None:
    file = clerk.see()
    for reason in ("empty", "empty", "growing", "growing"):
        clerk.do(arrivals.waiting, file, reason)
    assert clerk.history(file) == ["seen", "waiting", "waiting"]
    clerk.accept(file)
    clerk.do(arrivals.waiting, file, "too late")
    with clerk.reader() as reader:
        row = reader.file(file)
    assert row is not None and row.reason == ""


def test_a_rename_is_followed(clerk: Clerk) -> None:
    file = clerk.drop(b"a.pdf")
    with clerk.reader() as reader:
        signature = reader.known(clerk.inbox, b"")[b"a.pdf"].signature
        assert reader.find_moved(clerk.inbox, signature) == [(file, b"a.pdf")]
    moved = Signature(signature.size, signature.mtime_ns, signature.ctime_ns + 1, signature.inode)
    clerk.do(arrivals.rename, file, b"sub/b.pdf", moved)
    with clerk.reader() as reader:
        assert reader.known(clerk.inbox, b"") == {}
        assert reader.known(clerk.inbox, b"sub")[b"b.pdf"].signature == moved
        row = reader.file(file)
    assert row is not None and row.path == "/srv/scans/sub/b.pdf" and row.state is FileState.READY


def test_a_vanished_file_that_was_renamed_settles_again(clerk: Clerk) -> None:
    file = clerk.see(b"a.pdf")
    with clerk.reader() as reader:
        signature = reader.known(clerk.inbox, b"")[b"a.pdf"].signature
    clerk.delete(b"a.pdf")
    clerk.do(arrivals.rename, file, b"b.pdf", signature)
    assert clerk.state(file) is FileState.SETTLING


def test_a_rename_onto_another_file_replaces_that_one(clerk: Clerk) -> None:
    one, two = clerk.drop(b"a.pdf"), clerk.drop(b"b.pdf")
    clerk.do(arrivals.rename, one, b"b.pdf", clerk.signature())
    assert clerk.state(two) is FileState.VANISHED
    with clerk.reader() as reader:
        assert reader.known(clerk.inbox, b"")[b"b.pdf"].file == one


def test_a_finished_file_is_not_renamed(clerk: Clerk) -> None:
    file = clerk.finished(b"a.pdf")
    with clerk.reader() as reader:
        signature = reader.known(clerk.inbox, b"")[b"a.pdf"].signature
        assert reader.find_moved(clerk.inbox, signature) == []
    clerk.do(arrivals.rename, file, b"b.pdf", signature)
    with clerk.reader() as reader:
        assert set(reader.known(clerk.inbox, b"")) == {b"a.pdf"}


def test_two_inboxes_keep_apart(clerk: Clerk) -> None:
    other: InboxId = clerk.do(runs.inbox, b"/srv/other")
    file = clerk.see(b"a.pdf")
    (tracked,) = clerk.do(arrivals.record, [Sighting(other, b"a.pdf", Entry.FILE, clerk.signature())])
    assert tracked.file != file
    clerk.delete(b"a.pdf")
    assert clerk.state(tracked.file) is FileState.SETTLING


# ------------------------------------------------------------------------------------------------ accept


def test_new_content_is_ready(clerk: Clerk) -> None:
    file = clerk.see()
    assert clerk.accept(file, "new") == arrivals.Accepted(FileState.READY)
    assert clerk.history(file) == ["seen", "ready"]
    with clerk.reader() as reader:
        row = reader.file(file)
        assert reader.spooled() == [(file, digest("new"))]
    assert row is not None and (row.sha256, row.kind) == (digest("new"), "pdf")


def test_a_copy_is_needed_until_the_last_page_is_read(clerk: Clerk) -> None:
    """However long the outputs can't be written: else one read-only inbox fills the spool's disk."""
    file = clerk.open(b"a.pdf", 1, "new")
    with clerk.reader() as reader:
        assert reader.spooled() == [(file, digest("new"))]
        assert clerk.ledger.write_now(copies.needed, digest("new"))
        clerk.finish(clerk.claim_pages()[0])
        assert clerk.sql("SELECT state, delivery FROM files") == [("reading", "owed")]
        assert reader.spooled() == []
        assert not clerk.ledger.write_now(copies.needed, digest("new"))


@pytest.mark.parametrize("stage", ["ready", "reading", "retrying", "done"])
def test_content_that_is_known_is_a_duplicate(clerk: Clerk, stage: str) -> None:
    match stage:
        case "ready":
            first = clerk.drop(b"a.pdf", "same")
        case "reading":
            first = clerk.open(b"a.pdf", content="same")
        case "retrying":
            first = clerk.drop(b"a.pdf", "same")
            clerk.claim()
            clerk.do(claims.retry_file, first, "busy", clerk.now + 60)
        case _:
            first = clerk.finished(b"a.pdf", content="same")
    second = clerk.see(b"b.pdf", "same")
    assert clerk.accept(second, "same") == arrivals.Accepted(FileState.DUPLICATE, first)
    with clerk.reader() as reader:
        row = reader.file(second)
    assert row is not None and row.duplicate_of == "/srv/scans/a.pdf"
    assert row.delivery == ("owed" if stage == "done" else "none")


def test_a_duplicate_in_another_inbox(clerk: Clerk) -> None:
    first = clerk.finished(content="same")
    other: InboxId = clerk.do(runs.inbox, b"/srv/other")
    (tracked,) = clerk.do(arrivals.record, [Sighting(other, b"b.pdf", Entry.FILE, clerk.signature())])
    assert clerk.accept(tracked.file, "same") == arrivals.Accepted(FileState.DUPLICATE, first)


@pytest.mark.parametrize("end", ["done", "duplicate", "quarantined"])
def test_a_touched_file_is_folded_into_what_it_was(clerk: Clerk, end: str) -> None:
    if end == "duplicate":
        clerk.finished(b"first.pdf", content="same")
        old = clerk.drop(content="same")
        clerk.deliver(old, b"a.pdf")
    elif end == "quarantined":
        old = clerk.drop(content="same")
        clerk.do(arrivals.quarantine, old, "encrypted")
    else:
        old = clerk.finished(content="same")
    new = clerk.see(content="same")
    accepted = clerk.accept(new, "same")
    assert (accepted.state, accepted.original) == (FileState(end), old)
    with clerk.reader() as reader:
        known = reader.known(clerk.inbox, b"")[b"a.pdf"]
        assert reader.file(new) is None
    assert known.file == old and known.state == end
    assert clerk.history(old)[-1] == "unchanged"


def test_a_file_touched_while_it_is_read_keeps_the_pages_that_were_read(clerk: Clerk) -> None:
    old = clerk.open(count=3, content="same")
    pages = clerk.claim_pages(2)
    assert not clerk.finish(pages[0], "page one")
    new = clerk.see(content="same")
    assert clerk.accept(new, "same").state is FileState.READY
    assert not clerk.finish(pages[1], "too late")
    clerk.claim()
    assert not clerk.do(claims.opened, new, 3)
    assert [page.number for page in clerk.claim_pages()] == [2, 3]
    assert clerk.sql("SELECT count(*) FROM pages WHERE file = ?", old) == [(0,)]


def moved_over_a_vanished_one(clerk: Clerk, content: str) -> FileId:
    """Two files that were being read; the first was deleted, the second is at its path now, and is to settle again."""
    clerk.open(b"scan.pdf", 3, "same")
    for page in clerk.claim_pages(2):
        clerk.finish(page, "of the first")
    clerk.delete(b"scan.pdf")
    second = clerk.open(b"invoice.pdf", 3, content)
    clerk.finish(clerk.claim_pages(1)[0], "of the second")
    clerk.do(arrivals.rename, second, b"scan.pdf", clerk.signature(content))
    clerk.do(arrivals.resettle, [second], "its spool copy was lost")
    return second


def read_of(clerk: Clerk, file: FileId) -> list[tuple[int, str]]:
    return clerk.sql("SELECT number, text FROM pages WHERE file = ? AND state = 'ok' ORDER BY number", file)


def test_a_file_moved_over_a_vanished_one_of_the_same_content_keeps_its_own_pages(clerk: Clerk) -> None:
    second = moved_over_a_vanished_one(clerk, "same")
    assert clerk.accept(second, "same").state is FileState.READY
    assert read_of(clerk, second) == [(1, "of the second")]


def test_so_does_one_that_left_the_inbox_and_came_back_under_the_name_of_the_vanished_one(clerk: Clerk) -> None:
    clerk.open(b"scan.pdf", 2, "same")
    clerk.delete(b"scan.pdf")
    second = clerk.open(b"invoice.pdf", 2, "same")
    clerk.finish(clerk.claim_pages(1)[0], "of the second")
    clerk.delete(b"invoice.pdf")
    clerk.do(arrivals.rename, second, b"scan.pdf", clerk.signature("same"))
    assert clerk.accept(second, "same").state is FileState.READY
    assert read_of(clerk, second) == [(1, "of the second")]


def test_one_that_has_the_content_of_the_vanished_one_by_now_gets_the_pages_of_that(clerk: Clerk) -> None:
    second = moved_over_a_vanished_one(clerk, "other")
    assert clerk.accept(second, "same").state is FileState.READY
    assert read_of(clerk, second) == [(1, "of the first"), (2, "of the first")]


def test_other_content_after_all_drops_the_pages_that_were_read(clerk: Clerk) -> None:
    file = clerk.open(count=2, content="one")
    clerk.finish(clerk.claim_pages(1)[0])
    clerk.do(arrivals.resettle, [file], "spool copy lost")
    assert clerk.accept(file, "two").state is FileState.READY
    assert clerk.sql("SELECT count(*) FROM pages") == [(0,)]


def test_an_output_of_ours_is_never_input(clerk: Clerk) -> None:
    clerk.read(b"a.pdf")
    ours = written(b"a.pdf")
    assert clerk.deliver(FileId(1), b"a.pdf")
    file = clerk.see(b"copy of output.md")
    accepted = clerk.do(arrivals.accept, Arrival(file, clerk.signature(), Kind.PDF, ours.sha256, Path("spool")))
    assert accepted.state is FileState.SKIPPED and "output of inboxd" in accepted.reason
    assert clerk.state(file) is FileState.SKIPPED


def test_what_could_not_be_read_is_not_read_again_because_it_is_dropped_again(clerk: Clerk) -> None:
    poison = clerk.drop(b"a.pdf", "poison")
    clerk.claim()
    clerk.do(arrivals.quarantine, poison, "three processes died with it")
    again = clerk.see(b"b.pdf", "poison")
    accepted = clerk.accept(again, "poison")
    assert accepted == arrivals.Accepted(FileState.QUARANTINED, poison, "three processes died with it")
    assert clerk.claim() == []
    # A person may insist.
    assert clerk.do(runs.requeue, [again]) == 1
    assert clerk.accept(again, "poison").state is FileState.READY


def test_accepting_what_has_gone_meanwhile_says_so(clerk: Clerk) -> None:
    file = clerk.see()
    clerk.delete(b"a.pdf")
    assert clerk.accept(file).state is FileState.VANISHED
    assert clerk.accept(FileId(999)).state is FileState.VANISHED


# ------------------------------------------------------------------------------- set aside, and taken up again


def test_quarantine_and_skip_say_why(clerk: Clerk) -> None:
    bad, odd = clerk.see(b"bad.pdf"), clerk.see(b"odd.pdf")
    clerk.do(arrivals.quarantine, bad, "incomplete: no %%EOF")
    clerk.do(arrivals.skip, odd, "not a document")
    assert clerk.sql("SELECT name, state, reason FROM v_files ORDER BY id") == [
        ("bad.pdf", "quarantined", "incomplete: no %%EOF"),
        ("odd.pdf", "skipped", "not a document"),
    ]
    assert clerk.history(bad) == ["seen", "quarantined"]


def test_impossible_moves_are_refused(clerk: Clerk) -> None:
    file = clerk.finished()
    with pytest.raises(IllegalMove):
        clerk.do(arrivals.quarantine, file, "why")
    with pytest.raises(IllegalMove):
        clerk.do(arrivals.skip, file, "why")
    with pytest.raises(IllegalMove):
        clerk.do(claims.retry_file, file, "why", clerk.now)
    assert clerk.state(file) is FileState.DONE


def test_a_verb_that_comes_too_late_does_nothing(clerk: Clerk) -> None:
    file = clerk.drop()
    clerk.claim()
    clerk.delete(b"a.pdf")
    clerk.do(claims.retry_file, file, "too late", clerk.now)
    assert not clerk.do(claims.opened, file, 3)
    assert clerk.state(file) is FileState.VANISHED


def test_a_lost_spool_copy_is_made_again(clerk: Clerk) -> None:
    done = clerk.finished(b"done.pdf")
    file = clerk.open(count=2)
    assert clerk.do(arrivals.resettle, [file, done], "its spool copy was lost") == 1
    assert clerk.state(file) is FileState.SETTLING and clerk.state(done) is FileState.DONE
    with clerk.reader() as reader:
        assert reader.open_folders(clerk.inbox) == {b""}


def test_the_display_path_is_that_of_the_inbox(clerk: Clerk) -> None:
    clerk.see(b"sub/a.pdf")
    assert clerk.sql("SELECT path, inbox, name FROM v_files") == [
        ("/srv/scans/sub/a.pdf", INBOX.decode(), "a.pdf"),
    ]
