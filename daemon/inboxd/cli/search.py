"""`inboxd search`: which pages hold these words."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inboxd.cli import given
from inboxd.cli.printing import in_colour, print_json, say
from inboxd.core.showing import one_line
from inboxd.errors import Exit

if TYPE_CHECKING:
    from inboxd.ledger.rows import Hit


@click.command()
@click.argument("words", nargs=-1, required=True)
@given.config_option
@click.option("--limit", type=given.COUNT, default=20, metavar="N", help="At most so many pages; 20.")
@given.json_option
def search(words: Sequence[str], config: Path | None, limit: int, as_json: bool) -> int:
    """Find the pages that hold all of these words.

    A phrase goes in double quotes, inside single ones for the shell: '"purchase order"'.
    """
    with given.reader(given.settings(config)) as reader:
        hits = reader.search(" ".join(words), limit)
    if as_json:
        print_json([asdict(hit) for hit in hits])
    else:
        for hit in hits:
            say(f"{hit.path}, page {hit.page}", bold=True)
            say(f"    {''.join(_highlighted(hit))}")
        if not hits:
            say("No page has all of these words.", error=True)
    return Exit.OK if hits else Exit.FAILED


def _highlighted(hit: Hit) -> Iterator[str]:
    """The snippet with its marks in colour; made safe piece by piece, as escaping would shift the marks."""
    colour = in_colour(sys.stdout)
    end = 0
    for start, stop in hit.marks:
        yield one_line(hit.snippet[end:start])
        found = one_line(hit.snippet[start:stop])
        yield click.style(found, fg="yellow", bold=True) if colour else found
        end = stop
    yield one_line(hit.snippet[end:])
