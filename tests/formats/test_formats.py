"""What a reading looks like as Markdown, JSON and text."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt

from inboxd.formats import json as inboxd_json
from inboxd.formats import render, sha256
from inboxd.formats.wording import page_text, ranges
from inboxd.model import Box, FileId, InboxId, Kind, PageReading, PageState, Reading

SCHEMA = Path(__file__).parents[2] / "etc" / "output.schema.json"
BREAK = re.compile(r"^---\n<!-- page (\d+) -->$", re.MULTILINE)
FINAL = [PageState.OK, PageState.BLANK, PageState.SUSPECT, PageState.FAILED]

any_text = st.text(st.characters(codec=None), max_size=60)
shares = st.one_of(st.none(), st.floats(0, 1), st.just(float("nan")))
counts = st.one_of(st.none(), st.integers(0, 10**6))
boxes = st.builds(
    Box, text=any_text, confidence=st.floats(0, 1), **{k: st.floats(-5, 5000) for k in ("x0", "y0", "x1", "y1")}
)
page_parts = st.fixed_dictionaries(
    {
        "state": st.sampled_from(FINAL),
        "reason": any_text,
        "text": any_text,
        "width": st.integers(0, 5000),
        "height": st.integers(0, 5000),
        "engine": any_text,
        "model": any_text,
        "attempts": st.integers(0, 9),
        "seconds": st.floats(0, 1e4),
        "confidence": shares,
        "finish": st.sampled_from([None, "stop", "length"]),
        "tokens_in": counts,
        "tokens_out": counts,
        "turned": st.sampled_from([0, 90, 180, 270]),
        "boxes": st.lists(boxes, max_size=2).map(tuple),
        "warnings": st.lists(any_text, max_size=2).map(tuple),
    }
)
file_names = st.binary(min_size=1, max_size=60).filter(lambda name: b"/" not in name and b"\0" not in name)
readings = st.builds(
    lambda name, kind, size, pages, first: Reading(
        FileId(1),
        InboxId(1),
        b"some/folder/" + name,
        kind,
        "ab" * 32,
        size,
        tuple(PageReading(number=number, **parts) for number, parts in enumerate(pages, start=1)),
        first,
    ),
    file_names,
    st.sampled_from(Kind),
    st.integers(0, 2**40),
    st.lists(page_parts, min_size=1, max_size=5),
    any_text,
)


def page(number: int, text: str = "", state: PageState = PageState.OK, reason: str = "") -> PageReading:
    return PageReading(number, state, reason, text, 1088, 1540, "null", "none", 1, 0.25)


def reading(*pages: PageReading, path: bytes = b"in/scan.pdf") -> Reading:
    return Reading(FileId(1), InboxId(1), path, Kind.PDF, "ab" * 32, 1234, pages)


def one(format: str, what: Reading) -> str:
    return render(what, [format])[format].decode()


def parsed(what: Reading) -> Any:
    return json.loads(one("json", what))


def shown(markdown: str) -> str:
    """The text that a Markdown reader shows, of everything that is no raw HTML."""
    tokens = MarkdownIt("commonmark").parse(markdown)
    inline = [child for token in tokens for child in token.children or []]
    return " ".join(child.content for child in inline if child.type in {"text", "code_inline"})


def test_a_single_page_is_its_text_and_nothing_else() -> None:
    assert one("md", reading(page(1, "# Title\n\nText.\n"))) == "# Title\n\nText.\n"
    assert one("txt", reading(page(1, "Text."))) == "Text.\n"


def test_pages_are_parted_and_say_their_number() -> None:
    what = reading(page(1, "one"), page(2, "two"), page(3, "three"))
    assert one("md", what) == "one\n\n---\n<!-- page 2 -->\n\ntwo\n\n---\n<!-- page 3 -->\n\nthree\n"
    assert one("txt", what) == "one\n\ftwo\n\fthree\n"


def test_a_page_break_makes_no_heading_of_the_line_above_it() -> None:
    html = MarkdownIt("commonmark").render(one("md", reading(page(1, "last line"), page(2, "next"))))
    assert "<h2>" not in html
    assert "<hr" in html


def test_a_blank_page_says_so() -> None:
    what = reading(page(1, "one"), page(2, state=PageState.BLANK))
    assert one("md", what).endswith("<!-- page 2 -->\n\n*(page 2 is blank)*\n")
    assert one("txt", what) == "one\n\f"


def test_failed_and_doubtful_pages_are_flagged_at_their_place_and_at_the_top() -> None:
    failed = [page(number, state=PageState.FAILED, reason="the decoder gave up") for number in (3, 4, 5)]
    what = reading(page(1, "one"), page(2, "tw", PageState.SUSPECT, "the text stops in mid-page"), *failed)
    markdown = one("md", what)
    top, _, rest = markdown.partition("\n\n")
    assert top == "> **Check this text against the original**: pages 3–5 could not be read; page 2 is doubtful."
    assert "> **Page 2 is doubtful**: the text stops in mid-page\n\ntw\n" in rest
    assert rest.count("could not be read**: the decoder gave up") == 3
    assert "[page 2 is doubtful: the text stops in mid-page]\ntw\n\f[page 3 could not be read:" in one("txt", what)
    assert parsed(what)["counts"] == {"pages": 5, "ok": 1, "blank": 0, "suspect": 1, "failed": 3}


def test_what_the_decoder_said_stands_in_the_text_of_doubtful_pages_only() -> None:
    said = ("MuPDF says: a *broken* image", "a font is not embedded")
    good = replace(page(1, "one"), warnings=said)
    blank = replace(page(2, state=PageState.SUSPECT, reason=f"looks blank, but {said[0]}"), warnings=said)
    doubtful = replace(page(3, "three", PageState.SUSPECT, "the text repeats itself"), warnings=said)
    what = reading(good, blank, doubtful)
    assert one("md", what).partition("\n\n")[2] == (
        "one\n\n---\n<!-- page 2 -->\n\n"
        "> **Page 2 is doubtful**: looks blank, but MuPDF says: a \\*broken\\* image\n>\n"
        "> Something of it may be missing: a font is not embedded\n\n---\n<!-- page 3 -->\n\n"
        "> **Page 3 is doubtful**: the text repeats itself\n>\n"
        "> Something of it may be missing: MuPDF says: a \\*broken\\* image; a font is not embedded\n\nthree\n"
    )
    assert "[something of it may be missing: MuPDF says: a *broken* image; a font is not" in one("txt", what)
    assert [found["warnings"] for found in parsed(what)["pages"]] == [list(said)] * 3


@pytest.mark.parametrize(
    "evil",
    [
        "<script>alert(1)</script>",
        "<!-- swallow the rest",
        "line\n\n# Heading\n",
        "![x](http://evil.example/p.png) [y](javascript:z)",
        "`code` **bold** _it_ ~~no~~ &lt; \\",
        "\x1b[31mred\x00\u202eback",
    ],
)
def test_a_hostile_reason_is_shown_and_not_obeyed(evil: str) -> None:
    markdown = one("md", reading(page(1, state=PageState.FAILED, reason=evil), page(2, "after")))
    html = MarkdownIt("commonmark").enable("strikethrough").render(markdown)
    assert not re.search("<(script|h1|img|a |code|em|del)", html)
    assert "<p>after</p>" in html
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", markdown)
    plain = "".join(evil.split()).replace("\x1b", r"\x1b").replace("\x00", r"\x00").replace("\u202e", r"\u202e")
    assert plain in "".join(shown(markdown).split())


def test_the_name_of_the_file_has_no_way_into_the_text() -> None:
    evil = b"in/x\n# Owned\n<script>.pdf"
    assert one("md", reading(page(1, "text"), path=evil)) == "text\n"
    assert parsed(reading(page(1, "text"), path=evil))["name"] == "x\n# Owned\n<script>.pdf"


def test_text_is_nfc_and_never_nfkc() -> None:
    assert page_text("e\u0301 x² ½ ﬁ ①") == "é x² ½ ﬁ ①"


def test_control_characters_go_and_line_breaks_are_one_kind() -> None:
    assert page_text("\na\r\nb\rc\fd\ve\x85f\tg\x00\x1b[0m\x9b\ud800\n") == "a\nb\nc\nd\ne\nf\tg[0m"


def test_runs_of_pages_are_drawn_together() -> None:
    assert ranges([1, 2, 3, 5, 7, 8]) == "1–3, 5, 7–8"


def test_a_name_that_is_not_utf8_is_given_as_bytes_too() -> None:
    document = parsed(reading(page(1, "x"), path=b"in/caf\xe9.pdf"))
    assert document["name"] == r"caf\xe9.pdf"
    assert bytes.fromhex(document["name_bytes"]) == b"caf\xe9.pdf"
    assert "name_bytes" not in parsed(reading(page(1, "x")))


def test_the_json_names_the_hashes_of_the_others_and_proves_itself() -> None:
    outputs = render(reading(page(1, "text")), ["json", "md", "txt"])
    assert list(outputs) == ["md", "txt", "json"]
    proven = inboxd_json.proof(outputs["json"], "ab" * 32)
    assert proven == {name: sha256(data) for name, data in outputs.items()}


def test_an_edited_or_foreign_json_proves_nothing() -> None:
    raw = render(reading(page(1, "text")), ["json"])["json"]
    assert inboxd_json.proof(raw, "cd" * 32) is None
    assert inboxd_json.proof(raw.replace(b"text", b"test"), "ab" * 32) is None
    assert inboxd_json.proof(raw + b" ", "ab" * 32) is None
    assert inboxd_json.proof(raw[: len(raw) // 2], "ab" * 32) is None
    for foreign in (b"", b"{}", b"[" * 100_000, b'{"schema": "inboxd/1"}', b"\xff\x00"):
        assert inboxd_json.proof(foreign, "ab" * 32) is None


def test_a_forged_seal_around_nonsense_proves_nothing() -> None:
    for inside in (b'"sha256": []', b'"outputs": 3, "sha256": "' + b"ab" * 32 + b'"', b"[" * 100_000):
        assert inboxd_json.proof(sealed(inside), "ab" * 32) is None


def test_no_head_is_taken_apart_that_is_larger_than_ours_ever_are() -> None:
    inside = b'  "sha256": "' + b"ab" * 32 + b'",\n  "outputs": {}'
    assert inboxd_json.proof(sealed(inside), "ab" * 32) is not None
    assert inboxd_json.proof(sealed(inside + b',\n  "more": [' + b"0," * 40_000 + b"0]"), "ab" * 32) is None


def sealed(inside: bytes) -> bytes:
    zeros = b'{\n  "schema": "inboxd/1",\n  "seal": "' + b"0" * 64 + b'",\n' + inside + b',\n  "pages": [\n\n  ]\n}\n'
    return zeros.replace(b"0" * 64, sha256(zeros).encode(), 1)


@given(readings)
def test_the_json_keeps_to_its_schema(what: Reading) -> None:
    raw = render(what, ["md", "json"])["json"]
    document = json.loads(raw)
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)
    assert inboxd_json.proof(raw, what.sha256) is not None
    assert len(raw.splitlines()) == raw.count(b"\n")
    for found in document["pages"]:
        assert unicodedata.is_normalized("NFC", found["text"])


@given(readings)
def test_any_reading_gives_the_same_clean_bytes_again(what: Reading) -> None:
    outputs = render(what, ["md", "json", "txt"])
    assert outputs == render(what, ["txt", "md", "json"])
    for data in outputs.values():
        assert data == b"" or data[-1:] in b"\n\f"
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", outputs["md"].decode())
    assert outputs["txt"].count(b"\f") == len(what.pages) - 1
    breaks = [int(number) for number in BREAK.findall(outputs["md"].decode())]
    assert breaks == list(range(2, len(what.pages) + 1))
