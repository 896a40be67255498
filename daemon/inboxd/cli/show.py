"""`inboxd show`: all that the ledger knows of one file."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inboxd.cli import given
from inboxd.cli.printing import print_json, say, size, table
from inboxd.cli.when import local
from inboxd.core.naming import display
from inboxd.core.showing import one_line

if TYPE_CHECKING:
    from inboxd.ledger.reading import Reader
    from inboxd.ledger.rows import FileRow, PageRow


@click.command()
@click.argument("file")
@given.config_option
@given.json_option
def show(file: str, config: Path | None, as_json: bool) -> None:
    """Show one file: its state, pages, outputs and history.

    FILE is its path, the end of its path, or its id.
    """
    with given.reader(given.settings(config)) as reader:
        row = given.one_file(reader, file)
        if as_json:
            print_json(_everything(reader, row))
        else:
            _print(reader, row)


def _everything(reader: Reader, row: FileRow) -> dict[str, object]:
    return {
        "file": asdict(row),
        "versions": [asdict(version) for version in reader.history(row.id)],
        "pages": [asdict(page) for page in reader.pages(row.id)],
        "outputs": [{**asdict(output), "path": display(output.path)} for output in reader.outputs(row.id)],
        "events": [asdict(event) for event in reader.events(row.id)],
    }


def _print(reader: Reader, row: FileRow) -> None:
    pages, versions = reader.pages(row.id), reader.history(row.id)
    facts = {
        "file": f"{row.path} (id {row.id})",
        "state": f"{row.state}: {row.reason}" if row.reason else str(row.state),
        "same content as": row.duplicate_of or "",
        "next try": local(row.next_try_at),
        "outputs": f"still to be written: {row.delivery_reason}".rstrip(": ") if row.delivery == "owed" else "",
        "content": ", ".join(filter(None, (row.kind, size(row.size), _summary(row, pages)))),
        "sha256": row.sha256 or "",
        "first seen": local(row.first_seen),
        "finished": f"{local(row.finished)}, {row.seconds:.1f} s after it was first seen"
        if row.finished and row.seconds
        else "",
        "attempts": f"{row.attempts}, of which {row.deaths} ended with a process dying" if row.deaths else "",
        "note": "" if row.current else "a newer version lies at this path",
    }
    for name, fact in facts.items():
        if fact:
            say(f"{name:<16}{one_line(fact)}")
    _section(
        "Versions at this path",
        ("id", "state", "reason", "first seen", "sha256"),
        [(v.id, v.state, v.reason, local(v.first_seen), (v.sha256 or "")[:12]) for v in versions]
        if len(versions) > 1
        else [],
    )
    _section(
        "Pages",
        ("page", "state", "chars", "confidence", "seconds", "tries", "engine", "reason"),
        [
            (p.number, p.state, p.chars, _round(p.confidence), _round(p.seconds), p.attempts, p.engine, p.reason)
            for p in pages
        ],
    )
    _section("Noticed", ("page", "what"), [(p.number, warning) for p in pages for warning in p.warnings])
    _section(
        "Outputs",
        ("path", "format", "size", "written"),
        [(display(o.path), o.format, size(o.size), local(o.written)) for o in reader.outputs(row.id)],
    )
    _section(
        "History",
        ("at", "event", "page", "detail"),
        [(local(e.at), e.event, e.page, e.detail) for e in reader.events(row.id)],
    )


def _round(value: float | None) -> float | None:
    return value if value is None else round(value, 2)


def _section(title: str, headers: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    if rows:
        say(f"\n{title}", bold=True)
        table(headers, rows)


def _summary(row: FileRow, pages: list[PageRow]) -> str:
    if row.pages is None:
        return ""
    states = Counter(page.state.value for page in pages)
    told = ", ".join(f"{count} {state}" for state, count in states.items())
    return f"{row.pages} page{'' if row.pages == 1 else 's'}" + (f" ({told})" if told else "")
