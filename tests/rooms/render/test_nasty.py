"""Every nasty file through a real pool: each comes out as tests/nasty/outcomes.tsv says, and none stops the others.

Files whose licence keeps them out of the repository are looked for in the folder that INBOXD_NASTY names.
"""

from __future__ import annotations

import asyncio
import csv
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from inboxd import config
from inboxd.core.sniffing import HEAD, kind_of
from inboxd.model import Kind, Opened, PageFailure, PageImage, Refused
from inboxd.rooms.render.pool import RenderPool

FOLDER = Path(__file__).parents[2] / "nasty"
ELSEWHERE = Path(os.environ.get("INBOXD_NASTY", "/nonexistent"))
EDGE, GRID = 1540, 28


@dataclass(frozen=True)
class Expected:
    """A row of the table: pages with their sizes, or the words of the refusal, or (no kind) not a document at all."""

    file: str
    kind: str
    pages: int
    sizes: tuple[str, ...]
    refused: str


def table() -> list[Expected]:
    with (FOLDER / "outcomes.tsv").open(encoding="utf-8", newline="") as lines:
        return [
            Expected(row["file"], row["kind"], int(row["pages"] or 0), tuple(row["sizes"].split()), row["refused"])
            for row in csv.DictReader(lines, delimiter="\t")
        ]


def found(file: str) -> Path | None:
    return next((folder / file for folder in (FOLDER, ELSEWHERE) if (folder / file).exists()), None)


@dataclass(frozen=True)
class Outcome:
    opened: Opened | Refused
    pages: list[PageImage | PageFailure]
    unchanged: bool


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """What became of each document that is here, all through one pool."""

    async def main() -> dict[str, Outcome]:
        pool = RenderPool(config.Render(page_timeout=120), 2, EDGE, GRID)
        await pool.start()
        try:
            names = [row.file for row in table() if row.kind != "-" and found(row.file)]
            results = await asyncio.gather(*(through(pool, name) for name in names))
            assert pool.deaths == 0
            return dict(zip(names, results, strict=True))
        finally:
            await pool.close()

    return asyncio.run(main())


async def through(pool: RenderPool, name: str) -> Outcome:
    path = found(name)
    assert path is not None
    before = path.read_bytes()
    kind = kind_of(before[:HEAD])
    assert kind is not None
    opened = await pool.open(path, kind)
    pages: list[PageImage | PageFailure] = []
    if isinstance(opened, Opened):
        for number in range(1, opened.pages + 1):
            page = await pool.render(path, kind, number)
            if isinstance(page, PageImage):  # its pixels looked at and let go: hundreds are to come
                height, width, _ = page.pixels.shape
                assert width % GRID == height % GRID == 0
                assert page.pixels[page.height :].min(initial=255) == 255
                assert page.pixels[:, page.width :].min(initial=255) == 255
                page = PageImage(page.pixels[:0], page.width, page.height, page.ink, page.warnings)
            pages.append(page)
    return Outcome(opened, pages, path.read_bytes() == before)


@pytest.mark.parametrize("expected", table(), ids=lambda expected: expected.file)
def test_a_nasty_file_comes_out_as_it_should(expected: Expected, outcomes: dict[str, Outcome]) -> None:
    path = found(expected.file)
    if path is None:
        pytest.skip("its licence keeps it out of the repository: set INBOXD_NASTY to the folder that has it")
    kind = kind_of(path.read_bytes()[:HEAD])
    assert (kind or "-") == expected.kind
    if kind is None:
        return
    outcome = outcomes[expected.file]
    assert outcome.unchanged
    if expected.refused:
        assert outcome.opened == Refused(expected.refused)
        return
    assert outcome.opened == Opened(expected.pages)
    sizes = [f"{page.width}x{page.height}" if isinstance(page, PageImage) else "failed" for page in outcome.pages]
    wanted = list(expected.sizes)
    if wanted[-1] == "…":
        assert sizes[: len(wanted) - 1] == wanted[:-1]
    else:
        assert sizes == (wanted * len(sizes) if len(wanted) == 1 else wanted)
    for page in outcome.pages:
        if isinstance(page, PageFailure):
            assert page.permanent
            assert not page.died
            assert page.reason.startswith("corrupt")


BLANK = {"blank_catalog_without_type.pdf", "blank_scan_rot270.pdf", "action_autoprint.pdf", "action_launch.pdf"}
WARNED = {
    "portfolio_package.pdf": "attached",
    "xfa_14315.pdf": "XFA",
    "xfa_email.pdf": "XFA",
    "xref_none.pdf": "damaged",
    "trunc_one_byte_missing.pdf": "damaged",
    "garbage_nul_codes.pdf": "holds text, but nothing was drawn",
    "cjk_noembed_sjis.pdf": "not embedded",
}


@pytest.mark.parametrize("file", sorted(BLANK))
def test_a_blank_page_is_blank_and_nothing_is_said_of_it(file: str, outcomes: dict[str, Outcome]) -> None:
    (page,) = outcomes[file].pages
    assert isinstance(page, PageImage)
    assert page.ink == 0
    assert page.warnings == ()


@pytest.mark.parametrize("file", WARNED)
def test_what_a_person_should_know_of_a_page_is_said(file: str, outcomes: dict[str, Outcome]) -> None:
    page = outcomes[file].pages[0]
    assert isinstance(page, PageImage)
    assert any(WARNED[file] in warning for warning in page.warnings), page.warnings


@pytest.mark.parametrize("file", ["wrongext_docx_inside.pdf", "wrongext_html_inside.pdf", "five_bytes.pdf"])
def test_what_is_no_pdf_is_refused_even_if_it_is_called_one(file: str) -> None:
    async def main() -> Opened | Refused:
        pool = RenderPool(config.Render(), 1, EDGE, GRID)
        await pool.start()
        try:
            return await pool.open(FOLDER / file, Kind.PDF)
        finally:
            await pool.close()

    refused = asyncio.run(main())
    assert isinstance(refused, Refused)
    assert refused.reason.startswith(("not a PDF", "corrupt"))
