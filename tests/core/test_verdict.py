"""What is believed, doubted and read again; the texts are of the kinds that loop detectors are known to get wrong."""

import pytest

from inboxd.core.verdict import judge, loops
from inboxd.model import PageState, PageText

INKED, BLANK = 0.05, 0.0


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


def test_nothing_on_ink_is_read_again_and_then_doubted() -> None:
    assert state("", last=False) is None
    assert state("", last=True) is PageState.SUSPECT


def test_a_page_cut_short_is_never_done() -> None:
    assert state("and so on", finish="length", last=False) is None
    assert state("and so on", finish="length", last=True) is PageState.SUSPECT
    assert state("and so on", finish="repetition", last=True) is PageState.SUSPECT


LOOP = "the quick brown fox jumps over the lazy dog and then " * 100
COUNTER = "".join(f"<tr><td>{n}</td></tr>" for n in range(1, 400))
CONTENTS = "\n".join(f"Chapter {n} {'.' * 90} {n * 7}" for n in range(1, 40))
FORM = "\n".join(f"Name {'.' * 100}" for _ in range(3)) + "\nDate " + "." * 2000
EMPTY_TABLE = "<table>" + ("<tr>" + "<td></td>" * 8 + "</tr>") * 40 + "</table>"
PROSE = " ".join(f"word{(n * 7919) % 1013} and{(n * 31) % 97}" for n in range(600))


@pytest.mark.parametrize("text", [LOOP])
def test_a_phrase_that_repeats_itself_is_a_loop(text: str) -> None:
    assert loops(text)


@pytest.mark.parametrize("text", [CONTENTS, FORM, EMPTY_TABLE, PROSE, "short " * 20, ""])
def test_leaders_forms_and_empty_tables_are_not_loops(text: str) -> None:
    assert not loops(text)


def test_a_loop_is_doubted_only_beyond_what_the_model_was_trained_for() -> None:
    assert state(LOOP, tokens_out=3500) is PageState.SUSPECT
    assert state(LOOP, tokens_out=900) is PageState.OK
