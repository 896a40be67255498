"""The sample pages and what stands on them: tests/samples, as its index.tsv describes it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "samples"


@dataclass(frozen=True, slots=True)
class Sample:
    """A file, the language of each of its pages, and their true text."""

    path: Path
    what: str
    languages: tuple[str, ...]
    truth: tuple[str, ...]


def samples() -> list[Sample]:
    """Every sample, by name."""
    with (FOLDER / "index.tsv").open(encoding="utf-8", newline="") as lines:
        return [
            Sample(
                path=FOLDER / row["file"],
                what=row["what"],
                languages=tuple(row["languages"].split()),
                truth=tuple((FOLDER / row["file"]).with_suffix(".txt").read_text("utf-8").split("\f")),
            )
            for row in csv.DictReader(lines, delimiter="\t")
        ]
