"""`inboxd sql`: ask the ledger anything, without being able to change it."""

from __future__ import annotations

import csv
import math
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from inboxd.cli import given
from inboxd.cli.printing import plain, table
from inboxd.core.showing import one_line, to_json
from inboxd.errors import InboxdError, UsageError


@click.command()
@click.argument("query")
@given.config_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of objects; a BLOB is hex.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header; a BLOB is hex.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, max=1e9), default=0, metavar="S", help="Give up after S seconds."
)
def sql(query: str, config: Path | None, as_json: bool, as_csv: bool, timeout: float) -> None:
    """Ask the ledger in SQL; it can't be changed this way.

    QUERY is one statement in quotes, or - to read it from stdin. Tables and views: docs/ledger.md.
    """
    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other", "Choose one.")
    if math.isnan(timeout):  # which lies outside no range
        raise UsageError("--timeout nan is no number of seconds", "Name one, like 30.")
    if query == "-":
        query = sys.stdin.read()
    with given.reader(given.settings(config)) as reader:
        # SQLite works inside one long call, where Python sees no Ctrl-C; a reader has nothing to tidy up.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            reader.interrupt()

        timer = threading.Timer(timeout, expire) if timeout else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            columns, rows = reader.query(query)
            if as_json:
                _print_json(_distinct(columns), rows)
            elif as_csv:
                _print_csv(columns, rows)
            else:
                table(columns, rows)
        except UsageError as error:
            if expired.is_set():
                raise InboxdError(
                    f"the query took longer than {timeout:g} s", "Narrow it, or raise --timeout."
                ) from error
            raise
        finally:
            if timer is not None:
                timer.cancel()


def _print_json(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A JSON array, an object a line, written as the rows come."""
    separator = "[\n"
    for row in rows:
        sys.stdout.write(separator + to_json(dict(zip(columns, map(_sayable, row), strict=True)), default=plain))
        separator = ",\n"
    print("\n]" if separator == ",\n" else "[]")


def _print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_field(value) for value in row] for row in rows)


def _field(value: object) -> object:
    if isinstance(value, str):
        return "\n".join(map(one_line, value.split("\n")))
    return value.hex() if isinstance(value, bytes) else value


def _sayable(value: object) -> object:
    """JSON has no infinity, which SQLite makes of 9e999."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _distinct(columns: Sequence[str]) -> list[str]:
    """Names for JSON's keys: of two columns called `id` the second is `id_2`, so that none is lost."""

    def name() -> Iterator[str]:
        seen: set[str] = set()
        for column in columns:
            candidate, number = column, 1
            while candidate in seen:
                number += 1
                candidate = f"{column}_{number}"
            seen.add(candidate)
            yield candidate

    return list(name())
