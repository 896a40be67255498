"""`inboxd ocr`: read files once, here and now, without the daemon and without a trace in its ledger."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from inboxd import config as configuration
from inboxd.cli import given
from inboxd.cli.printing import say, shown
from inboxd.core.naming import candidates
from inboxd.core.showing import one_line
from inboxd.errors import ConfigError, Exit, InboxdError
from inboxd.model import Reading

OnPage = Callable[[Path, int, int], None]


class Format(StrEnum):
    """What can be written."""

    MD = "md"
    JSON = "json"
    TXT = "txt"


def ocr(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="PDFs and images.")],
    config: given.ConfigOption = None,
    format: Annotated[Format, typer.Option(help="What to write.")] = Format.TXT,
    beside: Annotated[bool, typer.Option("--beside", help="Write beside each file instead of to stdout.")] = False,
) -> None:
    """Read files once and print their text; no daemon needed.

    Needs no configuration either: without one it takes the defaults. What it writes beside a file never
    replaces anything.
    """
    for file in files:
        if not file.is_file():
            raise InboxdError(f"{shown(file)} is not a file", "Name PDFs or images.")
    try:
        settings = given.settings(config)
    except ConfigError:
        if config is not None:
            raise
        settings = configuration.Settings()
    from inboxd import logs

    logs.configure("warning")
    with tempfile.TemporaryDirectory(prefix="inboxd-ocr-") as own, _progress() as on_page:
        refused = asyncio.run(_read(msgspec.structs.replace(settings, state=own), files, format, beside, on_page))
    if refused:
        raise typer.Exit(Exit.FAILED)


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
) -> int:
    """Read all, in order; how many were refused."""
    from inboxd import formats, service

    refused = 0
    todo = iter(files)
    async for result in service.read_once(settings, files, on_page):
        file = next(todo)
        if not isinstance(result, Reading):
            say(f"inboxd: {shown(file)}: {one_line(result.reason)}", error=True)
            refused += 1
            continue
        content = formats.render(result, (format.value,))[format.value]
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
    """Write beside `file` under the first name that is free; returns the path, for a person."""
    from inboxd.rooms.folders import Folder
    from inboxd.rooms.placing import Draft

    try:
        with Folder.open(os.fsencode(file.parent)) as folder, Draft(folder) as draft:
            draft.write(content)
            draft.finish()
            for name in candidates(os.fsencode(file.name), format.value, folder.name_max):
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
