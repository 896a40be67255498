"""Lines come out in the order in which a person reads them."""

from hypothesis import given
from hypothesis import strategies as st

from inboxd.engines import reading_order
from inboxd.engines.reading_order import Line
from inboxd.model import Box

HEIGHT, PITCH = 20.0, 24.0  # pixels, of a line and from one to the next


def line(text: str, x: float, y: float, width: float = 300.0, height: float = HEIGHT) -> Line:
    return Line(Box(text, 1.0, x, y, x + width, y + height), x, y, x + width, y + height)


def column(prefix: str, x: float, y: float, count: int, width: float = 300.0) -> list[Line]:
    return [line(f"{prefix}{number}", x, y + PITCH * number, width) for number in range(count)]


def read(*lines: Line) -> str:
    return reading_order.text(reading_order.arrange(lines)).replace("\n\n", "\n").replace("\n", " / ")


def test_two_columns_are_read_one_after_the_other() -> None:
    left, right = column("a", 50, 100, 4), column("b", 400, 100, 4)
    mixed = [each for pair in zip(right, left, strict=True) for each in pair]
    assert read(*mixed) == "a0 / a1 / a2 / a3 / b0 / b1 / b2 / b3"


def test_three_columns_too() -> None:
    lines = column("a", 50, 100, 4, 250) + column("b", 330, 100, 4, 250) + column("c", 610, 100, 4, 250)
    assert read(*reversed(lines)) == "a0 / a1 / a2 / a3 / b0 / b1 / b2 / b3 / c0 / c1 / c2 / c3"


def test_a_full_width_heading_parts_the_page_into_bands() -> None:
    lines = [
        line("title", 50, 50, 650),
        *column("a", 50, 100, 3),
        *column("b", 400, 100, 3),
        line("second", 50, 200, 650),
        *column("c", 50, 250, 3),
        *column("d", 400, 250, 3),
    ]
    assert read(*lines) == "title / a0 / a1 / a2 / b0 / b1 / b2 / second / c0 / c1 / c2 / d0 / d1 / d2"


def test_a_short_title_above_full_width_text_is_not_the_left_column_s_last_line() -> None:
    lines = [
        *column("a", 50, 100, 4),
        *column("b", 400, 100, 4),
        line("title", 50, 230, 150),
        line("wide", 50, 252, 650),
    ]
    assert read(*lines) == "a0 / a1 / a2 / a3 / b0 / b1 / b2 / b3 / title / wide"


def test_the_cells_of_a_table_stay_in_their_rows() -> None:
    cells = [
        line(f"{name}{row}", x, 100 + PITCH * row, width)
        for row in range(5)
        for name, x, width in (("item", 50, 110), ("count", 300, 60), ("price", 500, 80))
    ]
    assert read(*cells[::-1]).startswith("item0 count0 price0 / item1 count1 price1 / ")


def test_uneven_heights_within_a_row_do_not_part_it() -> None:
    assert read(line("Total", 50, 100), line("12.50", 400, 106, 80, 14)) == "Total 12.50"


def test_vertical_setting_goes_from_right_to_left() -> None:
    lines = [line(text, x, 50, 22, 400) for text, x in (("二行目", 300), ("三行目", 260), ("一行目", 340))]
    assert read(*lines) == "一行目 / 二行目 / 三行目"


def test_a_gap_parts_paragraphs_and_the_next_column_does_not() -> None:
    lines = [*column("a", 50, 100, 3), *column("b", 50, 100 + 4 * PITCH, 2), *column("c", 400, 100, 6)]
    text = reading_order.text(reading_order.arrange(lines))
    assert text == "a0\na1\na2\n\nb0\nb1\nc0\nc1\nc2\nc3\nc4\nc5"


def test_lines_without_letters_are_left_out() -> None:
    assert read(line(" ", 50, 100), line("seen", 50, 130)) == "seen"
    assert read() == ""


positions = st.floats(0, 1500, allow_nan=False)
sizes = st.floats(0, 700, allow_nan=False)


@given(st.lists(st.tuples(positions, positions, sizes, sizes), max_size=40))
def test_every_line_is_read_exactly_once(boxes: list[tuple[float, float, float, float]]) -> None:
    lines = [line(str(number), *box) for number, box in enumerate(boxes)]
    rows = reading_order.arrange(lines)
    assert sorted(int(each.box.text) for row in rows for each in row) == list(range(len(boxes)))
