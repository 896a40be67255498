"""`inboxd search`: which pages hold these words."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from inboxd.cli import given
from inboxd.cli.printing import in_colour, print_json, say
from inboxd.core.showing import one_line

if TYPE_CHECKING:
    from inboxd.ledger.rows import Hit


def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help='Words, or a "phrase in quotes".')],
    config: given.ConfigOption = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many pages.")] = 20,
    json: given.JsonOption = False,
) -> None:
    """Find the pages that hold all of these words."""
    with given.reader(given.settings(config)) as reader:
        hits = reader.search(" ".join(words), limit)
    if json:
        print_json([asdict(hit) for hit in hits])
        return
    for hit in hits:
        say(f"{hit.path}, page {hit.page}", bold=True)
        say(f"    {''.join(_highlighted(hit))}")
    if not hits:
        say("No page has all of these words.", error=True)
        raise typer.Exit(1)


def _highlighted(hit: Hit) -> Iterator[str]:
    """The snippet with its marks in colour; made safe piece by piece, as escaping would shift the marks."""
    colour = in_colour(sys.stdout)
    end = 0
    for start, stop in hit.marks:
        yield one_line(hit.snippet[end:start])
        found = one_line(hit.snippet[start:stop])
        yield typer.style(found, fg="yellow", bold=True) if colour else found
        end = stop
    yield one_line(hit.snippet[end:])
