"""The labelled set: a page, what an engine said of it, and the verdict that a person would give.

Each case stands in one of two parts, by its source: on `tuned` the thresholds of core/verdict.py were chosen, on `held`
they were only measured. What an engine does wrong is modelled on how vision-language models fail.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from tests.verdicts import pages
from tests.verdicts.lists import LISTS

from inboxd.core.verdict import NO_IMAGE_DRAWN, Verdict, judge
from inboxd.model import Box, PageState, PageText

OK, BLANK, SUSPECT = PageState.OK, PageState.BLANK, PageState.SUSPECT
MAX_TOKENS = 4096  # where LightOnOCR-2 is stopped
_LATIN = re.compile(r"</?\w+>|\w{1,4}|[^\w\s]{1,8}")


@dataclass(frozen=True, slots=True)
class Case:
    """`kind` says what it tries, `name` begins with the language or the paper."""

    kind: str
    name: str
    text: PageText
    ink: float
    right: PageState
    warnings: tuple[str, ...] = ()

    @property
    def part(self) -> str:
        """`tuned` or `held`: the same for every case of a source."""
        return "held" if zlib.crc32(self.name.encode()) % 2 else "tuned"

    @property
    def verdict(self) -> Verdict:
        """What `judge` says after the last attempt."""
        return judge(self.text, ink=self.ink, warnings=self.warnings, last_attempt=True)


LOOPS = {
    "word": "the ",
    "number": "0 ",
    "phrase": "and the same to be returned to the office ",
    "sentence": "The Customer shall keep copies of all data that it entrusts to the Supplier. ",
    "paragraph": "We have had rain since you left. The lower meadow is a lake, two of the hens have moved into the "
    "porch, and the vicar preached on Noah with what I thought was unnecessary relish. Do come before the hay is in, "
    "there is room for all of you if the boys don't mind the loft.\n\n",
    "German": "die Heizungsanlage wurde geprüft und ",
    "French": "Veuillez agréer, Madame, Monsieur, ",
    "Russian": "в связи с изложенным и ",
    "Chinese": "的情况下，",
    "Japanese": "ことができます。",
    "Arabic": "وذلك بسبب ",
    "Hebrew": "אשר על כן ",
    "row": "<tr><td>Dachlatten</td><td>48 m</td><td>55,20 €</td></tr>\n",
    "counted row": "<tr><td>{n}</td><td>Dachlatten</td></tr>\n",
    "counted list": "{n}. See the note above.\n",
    "formula": "\\alpha_{{0}} + \\beta_{{0}} x + ",
}
"""Units that a model falls into repeating; `{n}` counts."""


def looped(unit: str, times: int) -> str:
    """`unit` so many times."""
    return "".join(unit.format(n=n) for n in range(1, times + 1))


def read(text: str, finish: str = "stop") -> PageText:
    """What an engine answers, with as many tokens as a model's tokenizer makes of it, roughly."""
    tokens = sum(1 if piece.isascii() else len(piece) for piece in _LATIN.findall(text))
    return PageText(text, finish=finish, tokens_in=2145, tokens_out=MAX_TOKENS if finish == "length" else tokens)


@functools.cache
def cases() -> tuple[Case, ...]:
    """All of them, always the same."""
    return tuple(
        case for kind in (_right, _blank, _cut, _loops, _nothing, _made_up, _not_drawn, _left_out) for case in kind()
    )


def _right() -> Iterator[Case]:
    for name, text in pages.texts().items():
        yield Case("text", name, read(text), pages.printed(text), OK)
        yield Case("text, small print", name, read(text), pages.printed(text, 5.5), OK)
        yield Case("text, without token counts", name, PageText(text), pages.printed(text, 14), OK)
    for name, text, ink in pages.scans():
        yield Case("scan", name, read(text), ink, OK)
    for name, text in LISTS.items():
        yield Case("repeats itself rightly", name, read(text), pages.printed(text), OK)
        yield Case("repeats itself rightly, small print", name, read(text), pages.printed(text, 6), OK)
    for name, ink in pages.numbered().items():
        yield Case("number only", name, read("17"), ink, OK)
    for name, text in list(pages.texts().items())[::3]:
        yield Case("text in pale grey", name, read(text), pages.printed(text, 10, "#aaa"), OK)
        yield Case("text, small and grey", name, read(text), pages.printed(text, 5.5, "#777"), OK)
    for name, text in list(pages.texts().items())[1::3]:
        ink = pages.printed(text, 10, "#bbb")
        lines = PageText(text, boxes=(Box(text, 0.9, 0, 0, 1, 1),))
        yield Case("text, faded", name, read(text), ink, OK)
        yield Case("text, faded, found line by line", name, lines, ink, OK)
    for caption in ("The mill in 1931", "Tafel 4", "Planche VII"):
        yield Case("picture", caption, read(f"![image](image_1.png)\n\n{caption}"), pages.photograph(caption), OK)


def _blank() -> Iterator[Case]:
    for name, ink in pages.empty().items():
        yield Case("empty page", name, read(""), ink, BLANK)
        yield Case("empty page, spaces read", name, read(" \n\n"), ink, BLANK)


def _cut() -> Iterator[Case]:
    for name, text in pages.texts().items():
        yield Case("cut short", name, read(text[: len(text) * 3 // 5], "length"), pages.printed(text), SUSPECT)
    for name, text in list(LISTS.items())[::3]:
        yield Case("cut short", name, read(text[: len(text) * 4 // 5], "length"), pages.printed(text), SUSPECT)


def _loops() -> Iterator[Case]:
    sources = list(pages.texts().items())
    for index, (unit, words) in enumerate(LOOPS.items()):
        name, text = sources[index * 2 % len(sources)]
        ink, begun = pages.printed(text), text[: len(text) // 2] + "\n"
        endless = begun + looped(words, 4 * MAX_TOKENS // max(len(words) // 4, 1))[: 3 * MAX_TOKENS]
        yield Case("loop to the limit", f"{name}, {unit}", read(endless, "length"), ink, SUSPECT)
        yield Case("loop stopped by the engine", f"{name}, {unit}", read(endless[:6000], "repetition"), ink, SUSPECT)
        yield Case("loop that ended late", f"{name}, {unit}", read(endless[:11000]), ink, SUSPECT)
        yield Case("loop that ended early", f"{name}, {unit}", read(endless[:4500]), ink, SUSPECT)
        amid = begun + endless[len(begun) : 4000] + text[len(text) // 2 :]
        yield Case("loop amid right text", f"{name}, {unit}", read(amid), ink, SUSPECT)
        short = text[:60]
        yield Case(
            "loop on a sparse page", f"{name}, {unit}", read(short + endless[:3000]), pages.printed(short), SUSPECT
        )
        full = pages.texts()["en contract"] + text
        longest = full + "\n" + endless[-11000:]
        yield Case("loop that ended late, full page", f"{name}, {unit}", read(longest), pages.printed(full), SUSPECT)


def _nothing() -> Iterator[Case]:
    for name, text in list(pages.texts().items())[::2]:
        yield Case("nothing read of a text", name, read("\n"), pages.printed(text), SUSPECT)
    for name, text in list(LISTS.items())[::8]:
        yield Case("nothing read of a list", name, read(""), pages.printed(text), SUSPECT)
    for name, ink in pages.numbered().items():
        yield Case("nothing read of a number", name, read(""), ink, SUSPECT)


def _made_up() -> Iterator[Case]:
    sources = list(pages.texts().items())
    for index, (name, ink) in enumerate(pages.empty().items()):
        yield Case("text on an empty page", name, read(sources[index][1]), ink, SUSPECT)
        yield Case("a word on an empty page", name, read("I"), ink, SUSPECT)
    for index, (name, ink) in enumerate(pages.numbered().items()):
        text = sources[index + 3][1] + "\n17"
        yield Case("a page of text on a number", name, read(text), ink, SUSPECT)
        lines = PageText(text, boxes=(Box(text, 0.9, 0, 0, 1, 1),))
        yield Case("the reverse, found line by line beside a number", name, lines, ink, SUSPECT)
    for name, text in sources[1::3]:
        heading = "Appendix C"
        yield Case(
            "a page of text on a heading", name, read(f"# {heading}\n\n{text}"), pages.printed(heading, 14), SUSPECT
        )


def _not_drawn() -> Iterator[Case]:
    said = (NO_IMAGE_DRAWN, "MuPDF says: openjpeg error: Failed to decode")
    for name, ink in list(pages.empty().items())[:2]:
        yield Case("image not drawn", name, read(""), ink, SUSPECT, said)
        yield Case("image not drawn, text made up", name, read("The Art of War"), ink, SUSPECT, said)
    for stamp in ("Page 3 of 12", "RECEIVED 12 MAY 2025", "Seite 7", "- 4 -"):
        yield Case("image not drawn, stamp read", stamp, read(stamp), pages.printed(stamp), SUSPECT, said)
    for name, text in list(pages.texts().items())[::9]:
        font = ("the font SimSun is not embedded: a substitute was drawn", "2 attached files not read")
        yield Case("drawn, with a remark", name, read(text), pages.printed(text), OK, font)


def _left_out() -> Iterator[Case]:
    for name, text in list(pages.texts().items())[::4]:
        yield Case("half left out", name, read(text[: len(text) // 2]), pages.printed(text), SUSPECT)
    sources = list(pages.texts().items())
    for (name, text), (_, other) in zip(sources[2::4], sources[5::4], strict=False):
        yield Case("another page's text", name, read(other), pages.printed(text), SUSPECT)
