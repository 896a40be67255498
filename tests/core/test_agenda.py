from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inboxd.core.agenda import LONGEST_BACKOFF, Agenda, Everything, Some


def started(rescan: float = 60.0, poll: float = 5.0) -> Agenda:
    """An agenda whose first scan is over at 0."""
    agenda = Agenda(rescan, poll, 0.0)
    assert agenda.take(0.0) == Everything()
    agenda.finished(Everything(), 0.0, 0.0)
    return agenda


def test_the_first_thing_is_to_scan_everything() -> None:
    agenda = Agenda(60.0, 5.0, 100.0)
    assert agenda.next_at() == 100.0
    assert agenda.take(100.0) == Everything()


def test_a_changed_folder_is_scanned_when_it_falls_quiet() -> None:
    agenda = started()
    agenda.change(b"a", 1.0)
    agenda.change(b"a", 1.2)
    assert agenda.take(1.4) is None
    assert agenda.next_at() == 1.45
    assert agenda.take(1.45) == Some(frozenset({b"a"}), is_poll=False)
    assert agenda.take(1.45) is None


def test_a_folder_that_never_falls_quiet_is_scanned_all_the_same() -> None:
    agenda = started()
    now, scans = 1.0, 0
    while now < 11.0:
        agenda.change(b"", now)
        scans += agenda.take(now) is not None
        now += 0.1
    assert 8 <= scans <= 10


def test_folders_without_events_are_polled_and_all_is_scanned_on_a_timer() -> None:
    agenda = started()
    agenda.poll({b"nas", b"nas/x"})
    assert agenda.next_at() == 5.0
    assert agenda.take(4.9) is None
    assert agenda.take(5.0) == Some(frozenset({b"nas", b"nas/x"}), is_poll=True)
    agenda.finished(Some(frozenset({b"nas"}), is_poll=True), 5.0, 5.5)
    assert agenda.next_at() == 10.5
    assert agenda.take(60.0) == Everything()


def test_an_expensive_folder_is_left_alone_for_four_times_as_long() -> None:
    agenda = started()
    agenda.scanned_folder(b"huge", 0.0, 1.0)
    agenda.change(b"huge", 1.5)
    agenda.change(b"small", 1.5)
    assert agenda.take(2.0) == Some(frozenset({b"small"}), is_poll=False)
    assert agenda.take(4.9) is None
    assert agenda.take(5.0) == Some(frozenset({b"huge"}), is_poll=False)


@given(st.floats(0.0, 1000.0))
def test_scanning_takes_a_fifth_of_the_time_at_most(length: float) -> None:
    agenda = started()
    agenda.poll({b""})
    agenda.finished(Everything(), 0.0, length)
    assert agenda.next_at() >= 4.999 * length


def test_an_inbox_in_trouble_is_tried_again_ever_more_rarely() -> None:
    agenda = started()
    now, pauses = 10.0, []
    for _ in range(9):
        agenda.change(b"a", now)
        agenda.failed(now)
        agenda.change(b"a", now)  # events tell nothing of a folder that can't be read
        pauses.append(agenda.next_at() - now)
        assert agenda.take(now + 0.9) is None
        now = agenda.next_at()
        assert agenda.take(now) == Everything()
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, LONGEST_BACKOFF]
    agenda.finished(Everything(), now, now)
    agenda.change(b"a", now)
    assert agenda.take(now + 0.25) == Some(frozenset({b"a"}), is_poll=False)


def test_a_person_need_not_wait() -> None:
    agenda = started()
    agenda.failed(0.0)
    agenda.failed(1.0)
    agenda.want_everything(1.5)
    assert agenda.take(1.5) == Everything()
