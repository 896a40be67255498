"""Character error rates on tests/samples: inboxd beside the OCR library alone; writes docs/accuracy.md.

    python bench/accuracy.py [--engine-only] [--out docs/accuracy.md]

inboxd's side goes through the whole daemon, from an inbox to the JSON beside the original; with --engine-only it is
the CPU engine on pages drawn as the render room draws them. The library's side is rapidocr as its own documentation
uses it, `RapidOCR()(file)` with every default, once on the files and once on our page images. The section on verdicts
comes from bench/verdicts.py.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests import cer, corpus, drawing  # noqa: E402
from tests.verdicts.cases import cases  # noqa: E402

import verdicts  # noqa: E402

ALL = "**all**"
Texts = dict[str, list[str]]  # by file name, the text of each page
LIBRARY_PDF_DPI = 200  # it reads no PDFs: its documentation leaves the drawing, and the size, to the caller

ABOUT = """\
# Accuracy

Written by `make accuracy` (`bench/accuracy.py`); do not edit.

Characters wrong in a hundred, on the {pages} pages of `tests/samples` in {languages} languages: **strict** / lenient.
Strict counts everything but line breaks, lenient the letters only, not the shape of quotes and dashes, nor spaces
(`tests/cer.py`). Most of what strict adds are en dashes read as hyphens and curly quotes read as straight ones.

- **inboxd**: {inboxd}.
- **rapidocr, files**: the library alone, given the file, with its defaults. It opens only the first page of a TIFF
  and no PDF, so it gets a TIFF's pages as Pillow images, and a PDF's as arrays of {dpi} dpi.
- **rapidocr, our pages**: the library alone with its defaults, on the page images that inboxd's engine gets.

The large differences are pages that the library's loader breaks, columns that its order mixes, content on its side,
and lines that its line classifier turns upside down. How many lines it reads together moves single characters of a
language's thousands either way: inboxd reads three, the library by its default six.

{when}, {machine}, Python {python}, {packages}.
"""

LIMITS = """\
The models know no `„` `‚` `¡` `ẞ` `№`, so these never come out; German opening quotes become `"`. A simplified form
for a traditional one is the typical slip in zh-Hant, a dropped punctuation mark in vertical Japanese. Korean,
Cyrillic, Greek, Arabic and Hebrew are not in the models at all, and handwriting was never measured.
"""


def through_daemon(samples: list[corpus.Sample]) -> Texts:
    """Copy the samples into an inbox, run the daemon until it is drained, and take the text out of its JSON."""
    with tempfile.TemporaryDirectory(prefix="inboxd-accuracy-") as folder:
        inbox, config = Path(folder, "inbox"), Path(folder, "inboxd.toml")
        inbox.mkdir()
        for sample in samples:
            shutil.copy(sample.path, inbox)
        command = [sys.executable, "-m", "inboxd"]
        where = ["--config", str(config)]
        new = ["--inbox", str(inbox), "--state", str(Path(folder, "state")), "--engine", "cpu"]
        subprocess.run([*command, "init", *where, *new], check=True)
        subprocess.run([*command, "run", *where, "--until-drained"], check=True)
        documents = {
            sample.path.name: json.loads((inbox / f"{sample.path.name}.json").read_bytes()) for sample in samples
        }
    seconds = [page["seconds"] for document in documents.values() for page in document["pages"]]
    print(f"inboxd: {statistics.median(seconds):.1f} s a page (median), {sum(seconds):.0f} s in all", file=sys.stderr)
    return {name: [page["text"] for page in document["pages"]] for name, document in documents.items()}


def through_engine(samples: list[corpus.Sample]) -> Texts:
    """The CPU engine on pages as the render room draws them."""
    from inboxd.config import Engine, Settings
    from inboxd.engines import registry
    from inboxd.model import PageFailure, PageImage

    async def read() -> Texts:
        engine = registry.create(Settings(engine=Engine(name="cpu")))
        await engine.start()

        async def one(page: PageImage) -> str:
            answer = await engine.read(page)
            return answer.reason if isinstance(answer, PageFailure) else answer.text

        texts = {}
        for sample in samples:
            texts[sample.path.name] = await asyncio.gather(*(one(page) for page in drawing.pages(sample.path)))
        await engine.close()
        return texts

    return asyncio.run(read())


def library_on_files(samples: list[corpus.Sample]) -> Texts:
    """rapidocr with its own loader, as far as that goes."""
    read = library()
    return {sample.path.name: [read(page) for page in as_the_library_takes_it(sample.path)] for sample in samples}


def library_on_our_pages(samples: list[corpus.Sample]) -> Texts:
    """rapidocr on our page images, in the channel order that it wants."""
    read = library()
    return {
        sample.path.name: [read(page.pixels[..., ::-1].copy()) for page in drawing.pages(sample.path)]
        for sample in samples
    }


def library() -> Callable[[Any], str]:
    from rapidocr import RapidOCR

    engine = RapidOCR()

    def read(content: Any) -> str:
        return "\n".join(engine(content).txts or ())

    return read


def as_the_library_takes_it(path: Path) -> list[Any]:
    if path.suffix == ".pdf":
        import numpy as np
        import pymupdf

        with pymupdf.open(path) as document:
            drawn = [page.get_pixmap(dpi=LIBRARY_PDF_DPI) for page in document]
        return [np.frombuffer(p.samples, np.uint8).reshape(p.height, p.width, 3)[..., ::-1].copy() for p in drawn]
    if path.suffix == ".tif":
        from PIL import Image, ImageSequence

        with Image.open(path) as image:
            return [frame.copy() for frame in ImageSequence.Iterator(image)]
    return [str(path)]


def scored(samples: list[corpus.Sample], texts: Texts) -> dict[tuple[str, str], tuple[cer.Score, cer.Score]]:
    """Strict and lenient scores of each file and language."""
    scores: dict[tuple[str, str], tuple[cer.Score, cer.Score]] = {}
    for sample in samples:
        pages = texts[sample.path.name]
        pages += [""] * (len(sample.truth) - len(pages))
        for page, truth, language in zip(pages, sample.truth, sample.languages, strict=True):
            strict, lenient = scores.get((sample.path.name, language), (cer.Score(), cer.Score()))
            strict, lenient = strict + cer.strict(page, truth, language), lenient + cer.lenient(page, truth)
            scores[sample.path.name, language] = strict, lenient
    return scores


def table(first: str, keys: list[str], columns: dict[str, Callable[[str], str]]) -> str:
    lines = [f"| {first} | " + " | ".join(columns) + " |", "|---" * (1 + len(columns)) + "|"]
    lines += [f"| {key} | " + " | ".join(cell(key) for cell in columns.values()) + " |" for key in keys]
    return "\n".join(lines)


def rates(scores: dict[tuple[str, str], tuple[cer.Score, cer.Score]], part: int) -> Callable[[str], str]:
    """A column: the rates over all scores whose key has that `part`; `ALL` is over everything."""

    def cell(key: str) -> str:
        chosen = [score for keys, score in scores.items() if key in (ALL, keys[part])]
        strict = sum((score[0] for score in chosen), cer.Score())
        lenient = sum((score[1] for score in chosen), cer.Score())
        return f"**{100 * strict.rate:.2f}** / {100 * lenient.rate:.2f}"

    return cell


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--engine-only", action="store_true", help="without the daemon round the engine")
    arguments.add_argument("--out", type=Path, default=ROOT / "docs" / "accuracy.md")
    given = arguments.parse_args()

    samples = corpus.samples()
    ours = through_engine if given.engine_only else through_daemon
    readers = {"inboxd": ours, "rapidocr, files": library_on_files, "rapidocr, our pages": library_on_our_pages}
    scores = {}
    for name, read in readers.items():
        print(f"reading {len(samples)} files: {name}", file=sys.stderr, flush=True)
        scores[name] = scored(samples, read(samples))

    languages = sorted({language for sample in samples for language in sample.languages})
    whats = {sample.path.name: sample.what for sample in samples}
    page = "\n".join(
        (
            ABOUT.format(
                pages=sum(len(sample.truth) for sample in samples),
                languages=len(languages),
                inboxd="the CPU engine on pages drawn by inboxd, without the daemon"
                if given.engine_only
                else "the files dropped into an inbox, the text taken out of the JSON beside them; engine `cpu`",
                dpi=LIBRARY_PDF_DPI,
                when=datetime.now(UTC).date().isoformat(),
                machine=verdicts.machine(),
                python=sys.version.split()[0],
                packages=", ".join(f"{name} {version(name)}" for name in ("rapidocr", "onnxruntime", "pymupdf")),
            ),
            table("language", [*languages, ALL], {name: rates(each, 1) for name, each in scores.items()}),
            "",
            table(
                "file", list(whats), {"what it is": whats.get} | {name: rates(each, 0) for name, each in scores.items()}
            ),
            "",
            LIMITS,
            verdicts.section(cases()).rstrip("\n"),
            "",
        )
    )
    given.out.write_text(page, "utf-8")
    print(f"written: {given.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
