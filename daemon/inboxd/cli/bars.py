"""Live views on a terminal: `inboxd status` as it changes, and the progress of work. The only user of rich."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from inboxd.cli.printing import shown
from inboxd.core.lifecycle import FINAL

if TYPE_CHECKING:
    from inboxd.drain import Progress as Drained
    from inboxd.ledger.rows import FileRow

_LOOK_S = 0.5
_PATH_WIDTH = 48


def follow(look: Callable[[], tuple[Iterable[str], Sequence[FileRow]]]) -> None:
    """Show what `look` tells, lines and files being read, twice a second until Ctrl-C."""
    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        while True:
            lines, reading = look()
            bars = _bars()
            for row in reading:
                bars.add_task(_end(row.path), total=row.pages, completed=row.pages_done)
            # Text, not str: a str would be searched for rich's markup, and file names may hold some.
            live.update(Group(Text("\n".join(lines)), bars), refresh=True)
            time.sleep(_LOOK_S)


@contextmanager
def draining() -> Iterator[Callable[[Drained], None]]:
    """Bars on stderr for files and pages; yields what the daemon calls with its progress."""
    with _bars(Console(stderr=True), TimeElapsedColumn()) as bars:
        files, pages = bars.add_task("starting", total=None), bars.add_task("pages", total=None)
        before: list[tuple[int, int]] = []  # what was final already when this run began

        def on_progress(progress: Drained) -> None:
            counts = progress.counts
            final = sum(count for state, count in counts.files.items() if state in FINAL)
            if not before:
                before.append((final, counts.pages_done))
            files_before, pages_before = before[0]
            bars.update(
                files,
                description=f"files: {progress.activity}",
                completed=final - files_before,
                total=sum(counts.files.values()) - files_before,
            )
            done = counts.pages_done - pages_before
            bars.update(pages, completed=done, total=done + counts.pages_open)

        yield on_progress


@contextmanager
def reading() -> Iterator[Callable[[Path, int, int], None]]:
    """Bars on stderr for `inboxd ocr`; yields what is called with a file, its pages done and its pages in all."""
    with _bars(Console(stderr=True), TimeElapsedColumn()) as bars:
        tasks: dict[Path, TaskID] = {}

        def on_page(file: Path, done: int, pages: int) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(_end(shown(file)))
            bars.update(tasks[file], completed=done, total=pages)

        yield on_page


def _bars(console: Console | None = None, *more: TimeElapsedColumn) -> Progress:
    named = TextColumn("{task.description}", markup=False)  # as above
    return Progress(named, BarColumn(), MofNCompleteColumn(), *more, console=console)


def _end(path: str) -> str:
    return path if len(path) <= _PATH_WIDTH else "…" + path[1 - _PATH_WIDTH :]
