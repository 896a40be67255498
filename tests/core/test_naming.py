"""Names of outputs and temporaries, and paths as people see them."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from inboxd.core.naming import NAME_MAX, candidates, display, is_ours, is_temporary, numbered, temporary

names = st.one_of(
    st.binary(min_size=1, max_size=255),
    st.text(min_size=1, max_size=255).map(lambda text: text.encode("utf-8", "surrogatepass")[:255]),
    st.text(alphabet="a📄é\u0301ー.", min_size=60, max_size=255).map(lambda text: text.encode()[:255]),
).filter(lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b".."))


def decodes(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def undisplay(shown: str) -> bytes:
    """What `display` promises: the bytes can be told from the line, but for what NFC makes equal."""

    def back(match: re.Match[str]) -> str:
        if match["byte"]:
            return chr(0xDC00 + int(match["byte"], 16))
        return chr(int(match["code"], 16)) if match["code"] else "\\"

    plain = re.sub(r"\\(?:x(?P<byte>[0-9a-f]{2})|u\{(?P<code>[0-9a-f]+)\}|\\)", back, shown)
    return plain.encode("utf-8", "surrogateescape")


def test_an_output_keeps_the_whole_name_of_its_original() -> None:
    assert list(islice(candidates(b"scan.pdf", "md"), 3)) == [b"scan.pdf.md", b"scan.pdf.2.md", b"scan.pdf.3.md"]
    assert next(candidates(b"caf\xe9.PDF", "json")) == b"caf\xe9.PDF.json"
    assert next(candidates(b" .pdf", "txt")) == b" .pdf.txt"


def test_a_file_that_moves_keeps_its_extension() -> None:
    assert list(islice(numbered(b"scan.pdf"), 3)) == [b"scan.pdf", b"scan.2.pdf", b"scan.3.pdf"]
    assert list(islice(numbered(b".pdf"), 2)) == [b".pdf", b".pdf.2"]
    assert list(islice(numbered(b"scan"), 2)) == [b"scan", b"scan.2"]


def test_the_longest_names_get_outputs_too() -> None:
    long = b"a" * 251 + b".pdf"
    output = next(candidates(long, "json"))
    assert len(output) == NAME_MAX
    assert re.fullmatch(rb"a+~[0-9a-f]{12}\.json", output)


def test_two_long_names_with_the_same_beginning_stay_apart() -> None:
    stem = "📄".encode() * 62
    first, second = (next(candidates(stem + tail, "md")) for tail in (b"12.pdf", b"21.pdf"))
    assert first != second
    assert first.decode().endswith(".md")
    assert second.decode().endswith(".md")


@given(names, st.sampled_from(["md", "json", "txt"]), st.sampled_from([143, NAME_MAX]))
def test_every_candidate_is_a_name_of_its_own_that_fits(name: bytes, format: str, limit: int) -> None:
    found = list(islice(candidates(name, format, limit), 12))
    assert len(set(found)) == 12
    for candidate in found:
        assert 0 < len(candidate) <= limit
        assert b"/" not in candidate
        assert candidate.endswith(b"." + format.encode())
        assert decodes(candidate) or not decodes(name)


@given(names, st.sampled_from([143, NAME_MAX]))
def test_every_number_fits_too(name: bytes, limit: int) -> None:
    found = list(islice(numbered(name, limit), 12))
    assert len(set(found)) == 12
    assert all(0 < len(candidate) <= limit for candidate in found)
    assert decodes(name) <= all(decodes(candidate) for candidate in found)


@given(names, names)
def test_first_choices_of_two_names_never_meet(one: bytes, other: bytes) -> None:
    assume(one != other)
    assert next(candidates(one, "md")) != next(candidates(other, "md"))


def test_temporary_names_are_ours_and_nothing_of_a_person_is() -> None:
    name = temporary("0123456789abcdef")
    assert is_ours(name)
    assert is_temporary(name)
    assert len(name) <= NAME_MAX
    assert is_ours(b".inboxd-marker")
    assert not is_temporary(b".inboxd-marker")
    assert not is_temporary(b".inboxd-0123456789abcdeg.tmp")
    assert not is_ours(b"scan.pdf")
    assert not is_ours(b"x.inboxd-0123456789abcdef.tmp")


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"a/scan.pdf", "a/scan.pdf"),
        (b"caf\xe9.pdf", r"caf\xe9.pdf"),
        ("cafe\u0301.pdf".encode(), "caf\u00e9.pdf"),
        (b"new\nline\t\x1b[31m.pdf", r"new\u{a}line\u{9}\u{1b}[31m.pdf"),
        (b"back\\xff.pdf", r"back\\xff.pdf"),
        ("fdp.\u202epdf".encode(), r"fdp.\u{202e}pdf"),
        (b"\xff\xcc\x87", r"\xff\u{307}"),
        ("می\u200cخواهم.pdf".encode(), "می\u200cخواهم.pdf"),
        ("帳票.pdf".encode(), "帳票.pdf"),
    ],
)
def test_a_path_shows_as_one_safe_line(path: bytes, shown: str) -> None:
    assert display(path) == shown


@given(st.one_of(st.binary(max_size=300), names))
def test_what_is_shown_is_safe_and_says_which_bytes(path: bytes) -> None:
    shown = display(path)
    shown.encode()
    assert shown.isprintable() or all(c.isprintable() or unicodedata.category(c) in "Cf Cn Co Zs" for c in shown)
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert unicodedata.is_normalized("NFC", shown)
    normal = unicodedata.normalize("NFC", path.decode("utf-8", "surrogateescape"))
    assert undisplay(shown) == normal.encode("utf-8", "surrogateescape")
