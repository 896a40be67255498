"""Precision and recall of the verdicts on the labelled set of tests/verdicts; writes its section of docs/accuracy.md.

    python bench/verdicts.py [--wrong] [--out docs/accuracy.md]

Nothing in it is drawn by chance: the same code gives the same figures.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.verdicts import score  # noqa: E402
from tests.verdicts.cases import Case, cases  # noqa: E402
from tests.verdicts.lists import LISTS  # noqa: E402

from inboxd.core.loops import loops  # noqa: E402
from inboxd.model import PageState  # noqa: E402

HEADING = "## Verdicts\n"

ABOUT = """
Written by `make accuracy` (`bench/verdicts.py`); do not edit.

How often a page is rightly called `ok`, `blank` or `suspect`, on the {count} cases of `tests/verdicts`: a page, what
an engine said of it, and the verdict that a person would give. The pages are drawn there from texts in {languages}
languages (letters, contracts, forms, receipts, tables, code, verse, lists that repeat themselves) and from papers of
every condition, or are those of `tests/samples`; what an engine gets wrong is made of them after the ways in which
vision-language models are known to fail. No model was run. The verdicts are those after the last attempt.

The thresholds were chosen on the part **tuned**, before **held** was seen. The cases are divided by their names, so
one source text can stand in both. After that look four kinds of cases were added (faded print and show-through) with
the rule for engines that find lines one by one; its limit `FADED_INK` was chosen with both parts known, by what the
`cpu` engine read of drawn pages. So the held figures of those kinds are no more independent than the tuned ones.

{table}

By what was tried, right of how many:

{kinds}

What this says, and what it does not:

- That a text is cut short, or a page blank, is not judged by the text: the engine says the one, the pixels the other.
  So these are told without fail, and they are {sure} % of the pages that deserve `suspect`.
- That a text repeats itself proves nothing: of {lists} lists, forms and verses that do so rightly {fooled} look like
  loops. So a second witness is asked: whether there is ink for so many letters. It misses short loops, and those of
  digits or mark-up, which need little ink; it suspects a page that is full of the same in print of 5 points.
- Text that was made up on a page with hardly anything on it is found by the same means, unless it is short.
- A text that leaves out half of the page, or belongs to another page, is **not** found: nothing looks for that.
- Print that has faded as far as show-through is hardly ink. What a model wrote of it may be suspected though it is
  right; an engine that finds lines one by one (`cpu`) is believed, unless hardly any ink is left. Pencil was not tried.

{when}, {machine}, Python {python}, {packages}.
"""


def section(found: tuple[Case, ...]) -> str:
    """The section of docs/accuracy.md, with its heading."""
    suspect = [case for case in found if case.right is PageState.SUSPECT]
    return HEADING + ABOUT.format(
        count=len(found),
        languages=len({case.name.split()[0].split("-")[0] for case in found if case.kind == "text"}),
        table=_table(score.scores(found)),
        kinds=_kinds(score.by_kind(found)),
        sure=round(100 * sum(case.text.finish != "stop" for case in suspect) / len(suspect)),
        lists=len(LISTS),
        fooled=sum(map(loops, LISTS.values())),
        when=datetime.now(UTC).date().isoformat(),
        machine=machine(),
        python=sys.version.split()[0],
        packages=", ".join(f"{name} {version(name)}" for name in ("pymupdf", "numpy", "opencv-python-headless")),
    )


def _table(scores: dict[tuple[str, PageState], score.Score]) -> str:
    lines = ["| part | verdict | pages that deserve it | precision | recall |", "|---|---|---|---|---|"]
    lines += [
        f"| {part} | {state} | {each.deserved} | {each.precision:.3f} | {each.recall:.3f} |"
        for (part, state), each in scores.items()
    ]
    return "\n".join(lines)


def _kinds(kinds: dict[str, dict[str, tuple[int, int]]]) -> str:
    lines = ["| | right verdict | tuned | held |", "|---|---|---|---|"]
    right = {case.kind: case.right for case in cases()}
    lines += [
        f"| {kind} | {right[kind]} | " + " | ".join(f"{good} of {count}" for count, good in parts.values()) + " |"
        for kind, parts in kinds.items()
    ]
    return "\n".join(lines)


def machine() -> str:
    """The processor that this runs on."""
    about = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in about if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} cores of {names[0] if names else 'an unnamed processor'}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--wrong", action="store_true", help="name the cases that are judged wrongly; write nothing")
    arguments.add_argument("--out", type=Path, default=ROOT / "docs" / "accuracy.md")
    given = arguments.parse_args()
    if given.wrong:
        for case in cases():
            if case.verdict.state is not case.right:
                print(f"{case.part}: {case.kind}: {case.name}: {case.verdict.state} {case.verdict.reason}")
        return
    before = given.out.read_text("utf-8").partition(HEADING)[0].rstrip("\n")
    given.out.write_text(f"{before}\n\n{section(cases())}", "utf-8")
    print(f"written: {given.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
