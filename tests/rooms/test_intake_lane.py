from __future__ import annotations

import gc
import tracemalloc

from inboxd.core.settling import Pace
from inboxd.model import FileId, Signature
from inboxd.rooms.lane import Lane

PACE = Pace(settle=3.0, max_settle=60.0)


def signature(number: int, size: int = 1000) -> Signature:
    return Signature(size, 1_700_000_000_000_000_000 + number, 1_700_000_000_000_000_000 + number, 10_000 + number)


def add(lane: Lane, number: int, now: float) -> None:
    lane.add(FileId(number), b"%d.pdf" % number, signature(number), now)


def test_a_file_is_due_when_it_has_settled() -> None:
    lane = Lane(PACE)
    assert lane.next_at() is None
    add(lane, 1, 10.0)
    assert lane.next(12.9) is None
    assert lane.next_at() == 13.0
    slot = lane.next(13.0)
    assert slot is not None and slot.path == b"1.pdf"
    assert lane.next(100.0) is None
    assert len(lane) == 1


def test_every_fourth_file_taken_is_the_newest() -> None:
    lane = Lane(PACE)
    for number in range(8):
        add(lane, number, float(number))
    order = []
    while (slot := lane.next(100.0)) is not None:
        order.append(int(slot.file))
    assert order == [0, 1, 2, 7, 3, 4, 5, 6]


def test_a_late_file_is_soon_taken_behind_a_hundred_thousand() -> None:
    lane = Lane(PACE)
    for number in range(100_000):
        add(lane, number, 0.0)
    add(lane, 200_000, 50.0)
    taken = [slot.file for _ in range(4) if (slot := lane.next(53.0)) is not None]
    assert 200_000 in taken


def test_a_change_begins_the_wait_anew_and_is_passed_over_before() -> None:
    lane = Lane(PACE)
    add(lane, 1, 0.0)
    add(lane, 2, 1.0)
    lane.add(FileId(1), b"1.pdf", signature(1, 2000), 2.0)
    first = lane.next(4.0)
    assert first is not None and first.file == 2
    assert lane.next(4.0) is None
    second = lane.next(5.0)
    assert second is not None and second.signature.size == 2000


def test_a_file_that_waits_is_looked_at_again_ahead_of_new_ones() -> None:
    lane = Lane(PACE)
    add(lane, 1, 0.0)
    slot = lane.next(3.0)
    assert slot is not None
    lane.again(slot, 5.0)
    add(lane, 2, 1.0)
    assert lane.next_at() == 4.0
    assert lane.next(6.0) is slot


def test_what_was_dropped_is_not_looked_at() -> None:
    lane = Lane(PACE)
    for number in range(3):
        add(lane, number, 0.0)
    slot = lane.get(b"1.pdf")
    assert slot is not None
    lane.drop(slot)
    left = [lane.next(9.0) for _ in range(3)]
    assert [slot.file for slot in left if slot is not None] == [0, 2]


def test_pauses_grow_up_to_ten_seconds() -> None:
    lane = Lane(PACE)
    add(lane, 1, 0.0)
    now, pauses = 3.0, []
    for _ in range(6):
        slot = lane.next(now)
        assert slot is not None
        lane.again_soon(slot, now)
        at = lane.next_at()
        assert at is not None
        pauses.append(at - now)
        now = at
    assert pauses == [1, 2, 4, 8, 10, 10]


def test_a_file_that_grew_soon_after_it_was_taken_was_taken_too_soon() -> None:
    lane = Lane(PACE)
    add(lane, 1, 0.0)
    slot = lane.next(3.0)
    assert slot is not None
    lane.accept(slot, signature(1), 3.0)
    assert lane.was_too_quick(b"1.pdf", signature(1, 2000), 10.0)
    assert not lane.was_too_quick(b"1.pdf", signature(1, 3000), 10.0)  # told once
    lane.accept(slot, signature(1), 3.0)
    assert not lane.was_too_quick(b"1.pdf", signature(1, 2000), 100.0)  # much later: a new version
    lane.accept(slot, signature(1), 3.0)
    assert not lane.was_too_quick(b"1.pdf", signature(2, 2000), 10.0)  # another file of that name
    lane.accept(slot, signature(1), 3.0)
    assert not lane.was_too_quick(b"1.pdf", signature(1), 10.0)  # touched


def test_slots_are_small() -> None:
    gc.collect()
    tracemalloc.start()
    lane = Lane(PACE)
    for number in range(20_000):
        lane.add(FileId(number), b"0123/scan_2026-11-30_%06d.pdf" % number, signature(number), float(number))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / 20_000 < 700
