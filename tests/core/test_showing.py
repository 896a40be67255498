"""Whatever a name or a reason holds, what is shown is one safe line, and JSON stays JSON."""

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from inboxd.core.showing import one_line, to_json

# Unicode Standard Annex 9, table 2.1 to 2.6: all that turn the direction of what follows.
TURNING = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
anything = st.text(
    st.characters(codec=None)
    | st.characters(categories=("Cs", "Cc", "Cf", "Zl", "Zp"))
    | st.sampled_from(sorted(TURNING))
)


@given(anything)
def test_one_line_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    shown = one_line(text)
    assert not any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in shown)
    assert TURNING.isdisjoint(shown)
    shown.encode()


def test_stray_bytes_and_escapes_are_legible() -> None:
    assert one_line("caf\udce9\x1b[31m\n\u202efdp") == r"caf\xe9\x1b[31m\n\u202efdp"


@given(st.dictionaries(anything, st.lists(anything | st.integers() | st.none())), st.sampled_from([None, 2]))
def test_json_says_the_same_and_is_safe(value: dict[str, list[object]], indent: int | None) -> None:
    dumped = to_json(value, indent=indent)
    assert json.loads(dumped) == value
    assert all(one_line(line) == line for line in dumped.split("\n"))
    dumped.encode()
