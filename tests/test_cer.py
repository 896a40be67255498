"""The measure of accuracy counts what it says it counts."""

import pytest
from tests import cer, corpus


@pytest.mark.parametrize(
    ("reading", "truth", "language", "edits"),
    [
        ("a  b\nc", "a b c", "en", 0),  # line breaks are space
        ("cast-\niron", "cast-iron", "en", 0),
        ("• one\n· two", "one\ntwo", "en", 0),
        ("e\u0301te", "éte", "fr", 0),  # NFC
        ("3-7 Feb", "3–7 Feb", "en", 1),
        ("ab", "a b", "en", 1),
        ("年 次", "年次", "ja", 0),
        ("", "abc", "en", 3),
    ],
)
def test_strict(reading: str, truth: str, language: str, edits: int) -> None:
    assert cer.strict(reading, truth, language).edits == edits


@pytest.mark.parametrize(
    ("reading", "truth", "edits"),
    [
        ("3-7 Feb", "3–7Feb", 0),
        ("'it's'", "‘it’s’", 0),
        ("ＡＢ", "AB", 0),
        ("rn", "m", 2),
    ],
)
def test_lenient(reading: str, truth: str, edits: int) -> None:
    assert cer.lenient(reading, truth).edits == edits


def test_scores_add_up_by_length() -> None:
    assert (cer.Score(1, 10) + cer.Score(0, 90)).rate == 0.01


def test_every_sample_has_a_truth_and_a_language_for_each_page() -> None:
    samples = corpus.samples()
    assert len(samples) == 24
    for sample in samples:
        assert len(sample.truth) == len(sample.languages)
        assert all(truth.strip() for truth in sample.truth)
