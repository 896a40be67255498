"""The verdicts on the labelled set are at least as often right as docs/accuracy.md says (bench/verdicts.py)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.verdicts import score
from tests.verdicts.cases import cases

from inboxd.core.loops import loops
from inboxd.model import PageState

PAGE = (Path(__file__).parents[2] / "docs" / "accuracy.md").read_text("utf-8")
RECORDED = {
    (part, PageState(state)): (float(precision), float(recall))
    for part, state, precision, recall in re.findall(
        r"^\| (tuned|held) \| (\w+) \| \d+ \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE
    )
}
KINDS = {
    (kind, part): (int(count), int(right))
    for kind, *parts in re.findall(r"^\| ([^|]+) \| \w+ \| (\d+ of \d+) \| (\d+ of \d+) \|$", PAGE, re.MULTILINE)
    for part, (right, _, count) in zip(score.PARTS, map(str.split, parts), strict=True)
}
"""Kind and part → how many cases there were, and how many were judged rightly."""


@pytest.mark.parametrize("part", score.PARTS)
@pytest.mark.parametrize("state", score.STATES)
def test_a_verdict_is_as_often_right_as_was_recorded(part: str, state: PageState) -> None:
    measured, (precision, recall) = score.scores(cases())[part, state], RECORDED[part, state]
    assert round(measured.precision, 3) >= precision
    assert round(measured.recall, 3) >= recall


@pytest.mark.parametrize("kind", sorted({case.kind for case in cases()}))
def test_no_kind_of_page_is_judged_worse_than_was_recorded(kind: str) -> None:
    for part, (count, right) in score.by_kind(cases())[kind].items():
        recorded_count, recorded_right = KINDS[kind, part]
        assert count == recorded_count  # or the figures are of another set: make accuracy
        assert right >= recorded_right


def test_the_set_has_what_it_takes() -> None:
    """Enough of every verdict on both parts, every script, and lists that a loop detector falls for."""
    found = cases()
    assert len(found) > 400
    assert len({(case.kind, case.name) for case in found}) == len(found)
    assert all(each.deserved >= 6 for each in score.scores(found).values())
    languages = {case.name.split()[0] for case in found if case.kind == "text"}
    assert {"en", "de", "fr", "ru", "el", "ar", "he", "hi", "zh", "ja", "ko"} <= languages
    fooled = [case for case in found if case.kind == "repeats itself rightly" and loops(case.text.text)]
    assert len(fooled) >= 15
    assert all(loops(case.text.text) for case in found if case.kind == "loop to the limit")
