"""What is believed, doubted and read again. How often that is right is measured in tests/verdicts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.core.loops import letters, loops
from inboxd.core.verdict import BLANK_INK, NO_IMAGE_DRAWN, judge
from inboxd.model import Box, PageState, PageText

INKED, BLANK = 0.05, 0.0
FAINT = 0.002  # a line


def state(text: str, ink: float = INKED, last: bool = True, **more: object) -> PageState | None:
    warnings = tuple(more.pop("warnings", ()))  # type: ignore[arg-type]
    return judge(PageText(text, **more), ink=ink, warnings=warnings, last_attempt=last).state  # type: ignore[arg-type]


def test_text_on_ink_is_believed() -> None:
    assert state("Dear Sir") is PageState.OK


def test_nothing_on_nothing_is_blank() -> None:
    assert state("  \n", ink=BLANK) is PageState.BLANK


def test_text_on_a_blank_page_is_doubted() -> None:
    assert state("The Art of War", ink=BLANK) is PageState.SUSPECT


def test_a_blank_raster_with_a_decoder_that_complained_is_doubted() -> None:
    assert state("", ink=BLANK, warnings=("an image was not drawn",)) is PageState.SUSPECT


def test_a_lost_image_is_doubted_whatever_else_stands_on_the_page_and_at_once() -> None:
    assert state("Page 3 of 12", ink=0.0004, last=False, warnings=(NO_IMAGE_DRAWN,)) is PageState.SUSPECT


def test_a_remark_about_a_page_that_was_drawn_decides_nothing() -> None:
    assert state("Dear Sir", warnings=("the font SimSun is not embedded: a substitute was drawn",)) is PageState.OK


def test_nothing_on_ink_is_read_again_and_then_doubted() -> None:
    assert state("", last=False) is None
    assert state("", last=True) is PageState.SUSPECT


@pytest.mark.parametrize("finish", ["length", "repetition", "abort"])
def test_a_page_cut_short_is_never_done(finish: str) -> None:
    assert state("and so on", finish=finish, last=False) is None
    assert state("and so on", finish=finish, last=True) is PageState.SUSPECT


@given(st.text(max_size=200), st.floats(0, 1), st.booleans())
def test_a_page_cut_short_is_never_done_whatever_it_says(text: str, ink: float, last: bool) -> None:
    assert state(text, ink=ink, last=last, finish="length") in {None, PageState.SUSPECT, PageState.BLANK}
    assert state(text, ink=max(ink, BLANK_INK), last=True, finish="length") is PageState.SUSPECT


@given(st.text(max_size=200), st.floats(0, 1), st.sampled_from(["stop", "length"]), st.lists(st.text(), max_size=2))
def test_the_last_attempt_has_the_last_word_and_a_reason(
    text: str, ink: float, finish: str, warnings: list[str]
) -> None:
    verdict = judge(PageText(text, finish=finish), ink=ink, warnings=tuple(warnings), last_attempt=True)
    assert verdict.state is not None
    assert bool(verdict.reason) == (verdict.state is PageState.SUSPECT)


LOOP = "the quick brown fox jumps over the lazy dog and then " * 100
COUNTER = "".join(f"<tr><td>{n}</td><td>Dachlatten</td></tr>" for n in range(1, 400))
HIDDEN = "Where a < b, " + LOOP
CHINESE = "在此情况下，乙方应当" * 200
PARAGRAPHS = (LOOP[:300].replace("fox", "dog", 2) + "A second sentence is in it, too, and a third.\n\n") * 12
CONTENTS = "\n".join(f"Chapter {n} {'.' * 90} {n * 7}" for n in range(1, 40))
FORM = "\n".join(f"Name {'.' * 100}" for _ in range(3)) + "\nDate " + "." * 2000
EMPTY_TABLE = "<table>" + ("<tr>" + "<td></td>" * 8 + "</tr>") * 40 + "</table>"
NUMBERED = " ".join(f"word{(n * 7919) % 1013} and{(n * 31) % 97}" for n in range(600))
PROSE = " ".join("abcdefghijklmnop"[(n * n) % 13 : (n * 7) % 16 + 1] + "aeiou"[n * 31 % 5] for n in range(1200))


@pytest.mark.parametrize("text", [LOOP, COUNTER, HIDDEN, CHINESE, PARAGRAPHS, PROSE + LOOP + PROSE])
def test_what_says_one_thing_over_and_over_loops(text: str) -> None:
    assert loops(text)


@pytest.mark.parametrize("text", [CONTENTS, FORM, EMPTY_TABLE, PROSE, "short " * 20, ""])
def test_leaders_forms_and_empty_tables_are_not_loops(text: str) -> None:
    assert not loops(text)


@pytest.mark.parametrize("text", [CONTENTS, FORM, EMPTY_TABLE, PROSE, NUMBERED, LOOP])
def test_what_there_is_ink_for_is_believed_also_when_it_repeats_itself(text: str) -> None:
    assert state(text, tokens_out=900) is PageState.OK
    assert state(text) is PageState.OK


def test_a_loop_is_doubted_where_the_ink_is_too_little_for_it() -> None:
    assert state(LOOP, ink=0.02, last=False) is None
    assert state(LOOP, ink=0.02) is PageState.SUSPECT


def test_beyond_what_the_model_was_trained_for_a_loop_needs_more_ink() -> None:
    assert state(LOOP, ink=0.04, tokens_out=900) is PageState.OK
    assert state(LOOP, ink=0.04, tokens_out=3500) is PageState.SUSPECT
    assert state(LOOP, ink=0.12, tokens_out=3500) is PageState.OK


def test_a_page_of_text_is_not_read_off_a_line() -> None:
    assert state(PROSE, ink=FAINT) is PageState.SUSPECT
    assert state(PROSE[:300], ink=FAINT) is PageState.OK


def test_lines_that_were_found_on_the_page_are_not_made_up_however_faded() -> None:
    lines = (Box("faded", 0.9, 1, 1, 9, 9),)
    assert state(PROSE, ink=FAINT, boxes=lines) is PageState.OK
    assert state(LOOP, ink=FAINT, boxes=lines) is PageState.OK
    assert state(PROSE, ink=FAINT, boxes=lines, tokens_out=900) is PageState.SUSPECT  # a model wrote it
    assert state(PROSE, ink=BLANK, boxes=lines) is PageState.SUSPECT


def test_the_reverse_that_was_read_through_the_paper_of_a_page_with_a_number_is_doubted() -> None:
    lines = (Box("reverse", 0.9, 1, 1, 9, 9),)
    assert state(PROSE, ink=0.00005, boxes=lines) is PageState.SUSPECT


def test_letters_are_what_takes_ink() -> None:
    assert letters("<td>a1</td> &nbsp; ..... __ \\frac{x}{y} | b < c > d") == 7
    assert letters("漢字") == 6


@pytest.mark.timeout(60)
@pytest.mark.parametrize("evil", ["<", "<a", "&", "\\", "_ ", "1 ", "\0"])
def test_no_text_holds_the_judge_up(evil: str) -> None:
    assert state(evil * (2_000_000 // len(evil)), finish="length") is PageState.SUSPECT
