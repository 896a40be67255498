"""The daemon's lives, folders and memory, and what people ask of it from another process."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from tests.ledger.clerk import BEGIN, INBOX, Clerk

from inboxd.core.lifecycle import FileState
from inboxd.ledger import arrivals, claims, runs
from inboxd.ledger.runs import Pruned
from inboxd.ledger.schema import memory_samples
from inboxd.model import EngineInfo, MemorySample


def test_a_life_from_start_to_end(clerk: Clerk) -> None:
    clerk.do(runs.engine_started, clerk.run, EngineInfo("vllm", "LightOnOCR-2-1B", "0.33", "NVIDIA H200"))
    clerk.do(runs.end_run, clerk.run, 75, "fragmentation 17 %")
    with clerk.reader() as reader:
        (run,) = reader.runs()
    assert (run.engine, run.model, run.gpu) == ("vllm", "LightOnOCR-2-1B", "NVIDIA H200")
    assert (run.exit_code, run.reason) == (75, "fragmentation 17 %") and run.ended
    with clerk.reader() as reader:
        assert [row.event for row in reader.events()] == ["started", "engine started", "ended"]


def test_a_life_that_left_no_word_is_marked_by_the_next(clerk: Clerk) -> None:
    clerk.start_run()
    with clerk.reader() as reader:
        now, before = reader.runs()
    assert before.ended and before.exit_code is None and "no word" in before.reason
    assert now.ended is None


def test_an_inbox_is_the_same_at_every_start(clerk: Clerk) -> None:
    assert clerk.do(runs.inbox, INBOX, priority=3, watching="polling: cifs") == clerk.inbox
    other = clerk.do(runs.inbox, b"/srv/caf\xe9")
    clerk.do(runs.inbox_state, other, "unavailable", "not mounted")
    clerk.do(runs.inbox_state, other, "unavailable", "not mounted")
    with clerk.reader() as reader:
        one, two = reader.inboxes()
        history = [row for row in reader.events() if row.event.startswith("inbox")]
    assert (one.path, one.priority, one.watching) == ("/srv/scans", 3, "polling: cifs")
    assert (two.folder, two.path, two.state, two.reason) == (
        b"/srv/caf\xe9",
        "/srv/caf\\xe9",
        "unavailable",
        "not mounted",
    )
    assert [(row.event, row.detail) for row in history] == [("inbox unavailable", "not mounted")]


def test_a_memory_sample_is_kept_with_what_else_was_measured(clerk: Clerk) -> None:
    clerk.do(runs.sample, clerk.run, MemorySample(host_rss=5, kv_used=0.5), pages=7, pace=None)
    ((host_rss, gpu_used, kv_used, extra),) = clerk.sql("SELECT host_rss, gpu_used, kv_used, extra FROM memory_samples")
    assert (host_rss, gpu_used, kv_used, json.loads(extra)) == (5, None, 0.5, {"pages": 7, "pace": None})


def test_every_figure_of_a_memory_sample_has_a_column() -> None:
    others = {"id", "run", "at", "extra", "torch_largest_free"}  # the last of an older ledger: never filled
    assert {field.name for field in fields(MemorySample)} == set(memory_samples.c.keys()) - others


def test_pause_and_resume(clerk: Clerk) -> None:
    assert not clerk.ledger.write_now(runs.paused)
    for on in (True, True, False):
        clerk.do(runs.pause, on)
        assert clerk.ledger.write_now(runs.paused) is on
        with clerk.reader() as reader:
            assert reader.paused() is on
    with clerk.reader() as reader:
        assert [row.event for row in reader.events()] == ["started", "paused", "resumed"]


def test_requeue_takes_a_finished_file_up_as_if_it_had_just_been_dropped(clerk: Clerk) -> None:
    file = clerk.finished(count=2)
    with clerk.reader() as reader:
        assert reader.control("requeued") is None
    assert clerk.do(runs.requeue, [file]) == 1
    assert clerk.do(runs.requeue, [file]) == 0
    with clerk.reader() as reader:
        row = reader.file(file)
        assert reader.control("requeued") == "1"
        assert reader.open_folders(clerk.inbox) == {b""}
    assert row is not None and (row.state, row.attempts, row.finished) == (FileState.SETTLING, 0, None)
    assert clerk.accept(file, "a.pdf").state is FileState.READY
    with clerk.reader() as reader:
        assert reader.pages(file) == []
    (claim,) = clerk.claim()
    assert claim.attempt == 1


@pytest.mark.parametrize("state", [state for state in FileState if state is not FileState.SETTLING])
def test_requeue_works_from_every_state(clerk: Clerk, state: FileState) -> None:
    file = clerk.finished(b"first", content="same") if state is FileState.DUPLICATE else None
    file = clerk.drop(b"a", "same")
    match state:
        case FileState.READING:
            clerk.claim()
        case FileState.RETRYING:
            clerk.claim()
            clerk.do(claims.retry_file, file, "", clerk.now)
        case FileState.QUARANTINED:
            clerk.do(arrivals.quarantine, file, "why")
        case FileState.VANISHED:
            clerk.delete(b"a")
        case FileState.DONE:
            (page,) = clerk.claim_pages() if clerk.claim() and not clerk.do(claims.opened, file, 1) else ()
            clerk.finish(page)
            clerk.deliver(file, b"a")
        case FileState.SKIPPED:
            file = clerk.see(b"b")
            clerk.do(arrivals.skip, file, "why")
    assert clerk.state(file) is state
    assert clerk.do(runs.requeue, [file]) == 1
    assert clerk.state(file) is FileState.SETTLING


def test_requeue_of_a_file_that_is_gone_keeps_what_was_read(clerk: Clerk) -> None:
    file = clerk.finished(text="all that is left of it")
    clerk.do(runs.requeue, [file])
    clerk.delete(b"a.pdf")
    assert clerk.state(file) is FileState.VANISHED
    with clerk.reader() as reader:
        assert [hit.file for hit in reader.search("left of it")] == [file]


def test_requeue_while_pages_are_in_flight(clerk: Clerk) -> None:
    file = clerk.open(count=3)
    one, two, _ = clerk.claim_pages()
    clerk.finish(one, "old")
    clerk.do(runs.requeue, [file])
    assert not clerk.finish(two, "late")
    clerk.accept(file, "a.pdf")
    clerk.claim()
    assert not clerk.do(claims.opened, file, 3)
    assert [page.number for page in clerk.claim_pages()] == [1, 2, 3]


def test_an_earlier_version_cannot_be_requeued(clerk: Clerk) -> None:
    old = clerk.finished(content="one")
    clerk.see(content="two")
    assert clerk.do(runs.requeue, [old]) == 0


def test_a_great_many_are_requeued(clerk: Clerk) -> None:
    sightings = [clerk.sighting(b"%d" % number) for number in range(2500)]
    files = [tracked.file for tracked in clerk.do(arrivals.record, sightings)]
    for chunk in (files[:1200], files[1200:]):
        for file in chunk:
            clerk.ledger.write_now(arrivals.skip, file, "not for us", now=clerk.now)
    assert clerk.do(runs.requeue, files) == 2500


def test_prune_forgets_what_is_old_a_little_at_a_time(clerk: Clerk) -> None:
    clerk.do(runs.sample, clerk.run, MemorySample(host_rss=1))
    for number in range(10):
        clerk.see(b"%d" % number)
    clerk.now += 86400
    clerk.see(b"new")
    limit = clerk.now - 3600
    assert clerk.do(runs.prune, events_before=None, samples_before=None) == Pruned(0, 0, all=True)
    assert clerk.do(runs.prune, events_before=limit, samples_before=BEGIN, limit=8) == Pruned(8, 0, all=False)
    assert clerk.do(runs.prune, events_before=limit, samples_before=limit, limit=8) == Pruned(3, 1, all=True)
    assert clerk.do(runs.prune, events_before=limit, samples_before=limit) == Pruned(0, 0, all=True)
    with clerk.reader() as reader:
        assert [row.event for row in reader.events()] == ["seen"]
    assert clerk.do(runs.prune, events_before=clerk.now + 1, samples_before=None) == Pruned(1, 0, all=True)
