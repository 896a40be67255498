from hypothesis import given
from hypothesis import strategies as st

from inboxd.core.admission import Window, batch_size, files_to_open, pages_to_claim, wait_s

windows = st.builds(
    Window,
    pages_in_flight=st.integers(1, 512),
    batch_pages=st.integers(1, 64),
    batch_wait_s=st.floats(0, 5),
)
counts = st.integers(0, 1000)


@given(counts, st.floats(0, 10), counts, windows)
def test_a_batch_never_overfills_the_window_or_itself(
    waiting: int, oldest: float, in_flight: int, window: Window
) -> None:
    size = batch_size(waiting, oldest, in_flight, window)
    assert 0 <= size <= min(waiting, window.batch_pages)
    assert in_flight + size <= max(window.pages_in_flight, in_flight)


@given(st.integers(1, 1000), windows)
def test_an_idle_engine_never_waits_for_a_full_batch(waiting: int, window: Window) -> None:
    assert batch_size(waiting, 0.0, 0, window) > 0


@given(st.integers(1, 1000), counts, windows)
def test_what_waits_goes_out_once_its_time_has_come(waiting: int, in_flight: int, window: Window) -> None:
    pause = wait_s(waiting, 0.0, in_flight, window)
    if pause is None:
        assert in_flight >= window.pages_in_flight
    else:
        assert batch_size(waiting, pause, in_flight, window) > 0


def test_a_part_batch_waits_while_the_engine_is_busy() -> None:
    window = Window(pages_in_flight=16, batch_pages=4, batch_wait_s=0.5)
    assert batch_size(waiting=2, oldest_wait_s=0.1, in_flight=8, window=window) == 0
    assert batch_size(waiting=4, oldest_wait_s=0.1, in_flight=8, window=window) == 4
    assert batch_size(waiting=2, oldest_wait_s=0.5, in_flight=8, window=window) == 2
    assert batch_size(waiting=9, oldest_wait_s=9.0, in_flight=15, window=window) == 1


@given(counts, windows, st.integers(1, 64))
def test_claims_stay_within_the_window_and_a_little_more(claimed: int, window: Window, renderers: int) -> None:
    ceiling = window.pages_in_flight + window.batch_pages + 2 * renderers
    assert claimed + pages_to_claim(claimed, window, renderers) == max(claimed, ceiling)


@given(counts, counts, counts, counts, st.integers(1, 64))
def test_some_documents_are_always_opened_when_none_is_and_never_without_end(
    open_files: int, opening: int, pending: int, claimable: int, renderers: int
) -> None:
    opening = min(opening, open_files)
    more = files_to_open(open_files, opening, pending, claimable, renderers)
    assert more >= 0
    assert open_files + more <= max(64, claimable, open_files)
    assert open_files > 0 or more > 0
    assert opening + more <= max(8 + renderers, opening)


def test_documents_that_do_not_open_leave_room_for_others() -> None:
    assert files_to_open(open_files=8, opening=8, pending_pages=0, claimable=100, renderers=2) == 2
    assert files_to_open(open_files=30, opening=1, pending_pages=10, claimable=100, renderers=2) == 9
