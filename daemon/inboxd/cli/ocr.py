"""`inboxd ocr`: read files once, here and now, without the daemon and without a trace in its ledger."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

import click

from inboxd import config as configuration
from inboxd.cli import given
from inboxd.cli.printing import say, shown
from inboxd.config import Format
from inboxd.core.naming import candidates
from inboxd.core.showing import one_line
from inboxd.errors import Exit, InboxdError
from inboxd.model import Reading

OnPage = Callable[[Path, int, int], None]


@click.command()
@click.argument("files", nargs=-1, required=True, type=given.PATH, metavar="FILE...")
@given.config_option
@click.option("--format", type=click.Choice(("md", "json", "txt")), default="txt", help="What to write; txt.")
@click.option("--beside", is_flag=True, help="Write beside each file instead of to stdout.")
def ocr(files: Sequence[Path], config: Path | None, format: Format, beside: bool) -> int:
    """Read files once and print their text; no daemon needed.

    FILE is a PDF or an image. Needs no configuration either: without one it takes the defaults. What it
    writes beside a file never replaces anything.
    """
    for file in files:
        with suppress(OSError):  # what may not even be looked at is refused when its turn comes
            if not file.is_file():
                what = f"{shown(file)} is not a file" if file.exists() else f"there is no file {shown(file)}"
                raise InboxdError(what, "Nothing was read. Name PDFs or images.")
    settings = given.settings_or_defaults(config)
    import asyncio

    from inboxd import logs
    from inboxd.engines import registry

    logs.configure("warning")
    with registry.logs_aside() as aside, _progress() as on_page:
        refused = asyncio.run(_read(settings, files, format, beside, on_page, aside))
    return Exit.FAILED if refused else Exit.OK


def _progress() -> AbstractContextManager[OnPage]:
    if not sys.stderr.isatty():
        return nullcontext(lambda _file, _done, _pages: None)
    from inboxd.cli.bars import reading

    return reading()


async def _read(
    settings: configuration.Settings,
    files: Sequence[Path],
    format: Format,
    beside: bool,
    on_page: OnPage,
    logs: Path,
) -> int:
    """Read all, in order; how many were refused."""
    from inboxd import formats, oneshot

    refused = 0
    todo = iter(files)
    async for result in oneshot.read_once(settings, files, on_page, logs):
        file = next(todo)
        if not isinstance(result, Reading):
            say(f"inboxd: {shown(file)}: {one_line(result.reason)}", error=True)
            refused += 1
            continue
        content = formats.render(result, (format,))[format]
        if beside:
            say(_place(file, format, content))
        else:
            _print(file, content, several=len(files) > 1)
    return refused


def _print(file: Path, content: bytes, several: bool) -> None:
    if several:
        say(f"==> {shown(file)} <==", error=True)
    text = content.decode()
    if sys.stdout.isatty():
        text = "\n".join(map(one_line, text.split("\n")))
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def _place(file: Path, format: Format, content: bytes) -> str:
    """Write beside `file`, for its readers, under the first name that is free; returns the path, for a person."""
    from inboxd.rooms.folders import Folder, dress_output
    from inboxd.rooms.placing import Draft

    try:
        with Folder.open(os.fsencode(file.parent)) as folder, Draft(folder) as draft:
            draft.write(content)
            dress_output(draft.fd, file.stat())
            draft.finish()
            for name in candidates(os.fsencode(file.name), format, folder.name_max):
                try:
                    draft.place(name)
                except FileExistsError:
                    continue
                return shown(os.fsdecode(folder.at(name)))
    except OSError as error:
        raise InboxdError(
            f"cannot write beside {shown(file)}: {error.strerror}", "Leave --beside out to get the text on stdout."
        ) from error
    raise AssertionError("candidates never end")
