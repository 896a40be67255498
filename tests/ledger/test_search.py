"""Words are found on pages in any script; whatever a person types is taken as words."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ledger.clerk import Clerk

from inboxd.ledger import runs
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.ledger.rows import Hit
from inboxd.ledger.searching import snippet_of, words_of

TEXTS = {
    b"german.pdf": "Rechnung Nr. 4711\nÜberweisung bitte bis zum 31. März",
    b"english.pdf": 'Invoice 4711: "net 30 days" AND nothing else (NOT paid)',
    b"chinese.pdf": "发票号码 4711,请在三十天内付款",
    b"japanese.pdf": "請求書 東京都港区 お支払い",
    b"russian.pdf": "Счёт-фактура ЛО 4711",
    b"arabic.pdf": "فاتورة رقم ٤٧١١",
    b"odd.pdf": "100% _under_ \\back\\ it's * NEAR(a b) {x} ^y -z",
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("search") / "ledger.sqlite"
    with Ledger.open(path) as ledger:
        fill(Clerk(ledger))
    return path


def fill(clerk: Clerk) -> None:
    for path, text in TEXTS.items():
        clerk.finished(path, text=text)


def found(path: Path, words: str, limit: int = 20) -> list[str]:
    with Reader(path) as reader:
        return [hit.path.removeprefix("/srv/scans/").removesuffix(".pdf") for hit in reader.search(words, limit)]


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("rechnung", ["german"]),
        ("RECHNUNG nr", ["german"]),
        ("überweisung", ["german"]),
        ("ÜBERWEISUNG", ["german"]),
        ("weisung", ["german"]),  # a part of a word
        ("invoice rechnung", []),
        ("4711", ["russian", "chinese", "english", "german"]),
        ("发票号码", ["chinese"]),
        ("付款", ["chinese"]),  # too short for the index
        ("东", []),
        ("東京", ["japanese"]),
        ("請求書 支払", ["japanese"]),
        ("счёт", ["russian"]),
        ("ло", ["russian"]),
        ("Ло 4711", ["russian"]),
        ("رقم", ["arabic"]),
        ('"net 30 days"', ["english"]),
        ('"30 net days"', []),
        ("net 30 days", ["english"]),
        ("u\u0308berweisung", ["german"]),  # typed in another normal form
        ("100%", ["odd"]),
        ("%", ["odd"]),
        ("_u", ["odd"]),
        ("\\b", ["odd"]),
        ("it's", ["odd"]),
        ("NEAR(a b)", ["odd"]),
        ("AND NOT", ["english"]),
        ("OR", []),
        ("text:invoice", []),
        ("*", ["odd"]),
        ("^y", ["odd"]),
        ("{x}", ["odd"]),
        ("-z", ["odd"]),
        ('"', ["english"]),
        ('"net 30', ["english"]),  # a quote that is never closed is a character
        ('""', []),
        ("'; DROP TABLE files; --", []),
        ("a\0b", ["odd"]),
        ("", []),
        ("   ", []),
        ("(" * 200, []),
        ("xyz " * 300, []),
    ],
)
def test_words(shelf: Path, words: str, where: list[str]) -> None:
    assert found(shelf, words) == where


def test_hits_are_newest_first_and_limited(shelf: Path) -> None:
    assert found(shelf, "4711", limit=2) == ["russian", "chinese"]


def test_a_hit_shows_where(shelf: Path) -> None:
    with Reader(shelf) as reader:
        (hit,) = reader.search("überweisung 31.")
    assert hit == Hit(1, "/srv/scans/german.pdf", 1, "Rechnung Nr. 4711 Überweisung bitte bis zum 31. März", hit.marks)
    assert [hit.snippet[start:stop] for start, stop in hit.marks] == ["Überweisung", "31."]


def test_the_index_follows_the_pages(clerk: Clerk) -> None:
    fill(clerk)
    path = clerk.ledger.path
    assert found(path, "rechnung") == ["german"]
    ((file,),) = clerk.sql("SELECT id FROM v_files WHERE name = 'german.pdf'")
    clerk.do(runs.requeue, [file])
    clerk.accept(file, "german.pdf")
    clerk.claim()
    assert found(path, "rechnung") == []
    clerk.finished(b"copy.pdf", text="Rechnung neu")
    clerk.see(b"copy.pdf", "newer version")
    assert found(path, "rechnung") == []  # of an earlier version
    with Reader(path) as reader:
        assert reader.damage() == []


def test_a_long_page_is_shown_around_the_word() -> None:
    text = "start " + "lorem ipsum " * 50 + "the needle\nis here " + "dolor sit " * 50
    shown, ((begin, end),) = snippet_of(text, ["NEEDLE"])
    assert shown[begin:end] == "needle"
    assert shown.startswith("…") and shown.endswith("…") and len(shown) < 150 and "\n" not in shown


def test_words_of_what_was_typed() -> None:
    assert words_of('one "two three" four"five " six') == ["one", "two three", 'four"five', '"', "six"]
