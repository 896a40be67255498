"""Which outputs are on disk, which are owed, and which are ours."""

from __future__ import annotations

from tests.ledger.clerk import INBOX, Clerk, written

from inboxd.core.lifecycle import FileState
from inboxd.ledger import claims, deliveries, runs
from inboxd.model import Written


def test_delivered_is_done(clerk: Clerk) -> None:
    file = clerk.read()
    assert clerk.deliver(file, b"a.pdf")
    with clerk.reader() as reader:
        row = reader.file(file)
        (output,) = reader.outputs(file)
        assert reader.outputs_in(INBOX) == reader.outputs_in(INBOX + b"/") == {b"a.pdf.md"}
        assert reader.outputs_in(b"/elsewhere") == set()
        assert reader.written_for(file) == {INBOX + b"/a.pdf.md": written(b"a.pdf").sha256}
    assert row is not None and (row.state, row.delivery) == (FileState.DONE, "delivered") and row.finished
    assert (output.path, output.format, output.sha256) == (INBOX + b"/a.pdf.md", "md", written(b"a.pdf").sha256)
    assert clerk.history(file) == ["seen", "ready", "claimed", "opened", "read", "done"]


def test_nothing_is_delivered_before_every_page_is_read(clerk: Clerk) -> None:
    file = clerk.open(count=2)
    clerk.finish(clerk.claim_pages(1)[0])
    assert not clerk.deliver(file, b"a.pdf")
    assert clerk.state(file) is FileState.READING


def test_what_cannot_be_written_is_owed_until_it_can(clerk: Clerk) -> None:
    file = clerk.read()
    for _ in range(3):
        assert clerk.owed(10) == [file]
        clerk.do(deliveries.undelivered, file, "the folder is read-only", clerk.now + 30)
        assert clerk.owed(10) == []
        with clerk.reader() as reader:
            counts = reader.counts()
        assert (counts.open, counts.owed, counts.undeliverable) == (0, 1, 1)
        clerk.now += 30
    assert clerk.history(file).count("undelivered") == 1
    assert clerk.deliver(file, b"a.pdf")
    assert clerk.owed(10) == []
    assert clerk.state(file) is FileState.DONE


def test_owed_is_bounded_and_in_order(clerk: Clerk) -> None:
    files = [clerk.read(name) for name in (b"a", b"b", b"c")]
    assert clerk.owed(1) == files[:1]
    assert clerk.owed(3) == files


def test_the_last_of_those_owed_is_the_newest_so_that_a_flood_does_not_starve_it(clerk: Clerk) -> None:
    files = [clerk.read(name) for name in (b"a", b"b", b"c", b"d", b"e")]
    assert clerk.owed(3) == [*files[:2], files[-1]]
    assert clerk.owed(4) == [*files[:3], files[-1]]


def test_a_new_version_takes_over_the_outputs_of_the_old(clerk: Clerk) -> None:
    old = clerk.finished(content="one")
    clerk.see(content="two")
    new = clerk.finished(content="two")
    with clerk.reader() as reader:
        assert reader.outputs(old) == []
        assert [output.path for output in reader.outputs(new)] == [INBOX + b"/a.pdf.md"]
        assert set(reader.written_for(new)) == set(reader.written_for(old)) == {INBOX + b"/a.pdf.md"}


def test_an_output_of_an_earlier_version_is_still_ours(clerk: Clerk) -> None:
    old = clerk.read(content="one")
    text = Written(INBOX + b"/a.pdf.txt", "txt", "f" * 64, 1)
    clerk.do(deliveries.delivered, old, [written(b"a.pdf"), text])
    clerk.see(content="two")
    new = clerk.finished(content="two")
    with clerk.reader() as reader:
        ours = reader.written_for(new)
    assert set(ours) == {INBOX + b"/a.pdf.md", text.path} and ours[text.path] == text.sha256


def test_outputs_written_for_a_file_that_was_requeued_meanwhile_are_ours(clerk: Clerk) -> None:
    file = clerk.read()
    clerk.do(runs.requeue, [file])
    assert not clerk.deliver(file, b"a.pdf")
    assert clerk.state(file) is FileState.SETTLING
    with clerk.reader() as reader:
        assert reader.outputs_in(INBOX) == {b"a.pdf.md"}


def test_an_outdated_delivery_does_not_close_a_file_that_is_read_again(clerk: Clerk) -> None:
    file = clerk.read()
    clerk.do(runs.requeue, [file])
    clerk.accept(file, "a.pdf")
    clerk.claim()
    clerk.do(claims.opened, file, 1)
    assert not clerk.deliver(file, b"a.pdf")
    assert clerk.state(file) is FileState.READING


def test_an_old_version_that_is_owed_its_outputs_is_not_delivered_over_the_new(clerk: Clerk) -> None:
    old = clerk.read(content="one")
    clerk.do(deliveries.undelivered, old, "disk full", clerk.now)
    clerk.see(content="two")
    assert clerk.owed(10) == []
    assert clerk.state(old) is FileState.VANISHED


def test_the_original_of_a_finished_file_is_gone_before_it_is_in_the_archive(clerk: Clerk) -> None:
    file = clerk.read()
    clerk.do(deliveries.delivered, file, [], archiving=True)
    assert clerk.do(deliveries.vanished, file, "deleted")
    assert clerk.owed(10) == []
    assert clerk.state(file) is FileState.DONE
    assert not clerk.do(deliveries.vanished, file, "deleted")  # nothing is owed any more: nothing to do


def test_the_original_of_a_file_that_is_not_done_may_have_been_renamed(clerk: Clerk) -> None:
    file = clerk.read()
    assert not clerk.do(deliveries.vanished, file, "it is no longer there")
    assert clerk.owed(10) == [file]


def test_a_file_is_owed_until_its_original_is_in_the_archive(clerk: Clerk) -> None:
    file = clerk.read()
    output = written(b"a.pdf")
    assert clerk.do(deliveries.delivered, file, [output], archiving=True)
    assert clerk.state(file) is FileState.DONE
    for _ in range(2):
        assert clerk.owed(10) == [file]
        assert not clerk.do(deliveries.delivered, file, [output], archiving=True)
    with clerk.reader() as reader:
        assert reader.counts().open == 1
    assert clerk.do(deliveries.undelivered, file, "the archive is full", clerk.now)
    assert not clerk.do(deliveries.delivered, file, [output], archiving=True)
    assert not clerk.do(deliveries.undelivered, file, "the archive is full", clerk.now)
    clerk.do(deliveries.archived, file, b"/archive/a.pdf")
    clerk.do(deliveries.archived, file, b"/archive/a.pdf")
    assert clerk.owed(10) == []
    assert clerk.history(file)[-4:] == ["read", "done", "undelivered", "archived"]


def test_an_output_at_the_root_of_the_filesystem(clerk: Clerk) -> None:
    file = clerk.read()
    clerk.do(deliveries.delivered, file, [Written(b"/a.md", "md", "0" * 64, 1)])
    with clerk.reader() as reader:
        assert reader.outputs_in(b"/") == {b"a.md"}
        assert [output.path for output in reader.outputs(file)] == [b"/a.md"]
