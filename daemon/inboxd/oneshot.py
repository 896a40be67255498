"""Reads a few files here and now: the renderer and an engine, without inbox, ledger or outputs."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from inboxd.config import Settings
from inboxd.core import lastword
from inboxd.core.lastword import ReadBy
from inboxd.core.sniffing import kind_of
from inboxd.core.verdict import judge
from inboxd.engines import registry
from inboxd.engines.protocol import Engine
from inboxd.model import FileId, InboxId, Kind, PageFailure, PageReading, Reading, Refused
from inboxd.rooms.render.pool import RenderPool

HEAD = 4096


async def read_once(
    settings: Settings, files: Sequence[Path], on_page: Callable[[Path, int, int], None], logs: Path
) -> AsyncIterator[Reading | Refused]:
    """Read files in order, each as soon as it is through; `on_page(file, done, pages)` after every page.

    The engine's log goes to the folder `logs`.

    Raises:
        EngineUnusable: the engine can't run here.
        EngineLost: it died.
    """
    engine = registry.create(settings, logs)
    limits = engine.limits
    pool = RenderPool(settings.render, settings.render_workers, limits.longest_edge, limits.grid)
    await pool.start()
    try:
        info = await engine.start()
        for file in files:
            yield await _read(pool, engine, ReadBy(info.engine, info.model), file, on_page)
    finally:
        await engine.close()
        await pool.close()


async def _read(
    pool: RenderPool, engine: Engine, by: ReadBy, file: Path, on_page: Callable[[Path, int, int], None]
) -> Reading | Refused:
    try:
        kind, digest, size = await asyncio.to_thread(_look, file)
    except OSError as error:
        return Refused(f"cannot be read: {error.strerror}")
    if kind is None:
        return Refused("not a document that inboxd reads")
    opened = await pool.open(file, kind)
    if isinstance(opened, Refused):
        return opened
    done = 0
    gate = asyncio.Semaphore(engine.limits.pages_in_flight + 1)

    async def page(number: int) -> PageReading:
        nonlocal done
        async with gate:
            reading = await _page(pool, engine, by, file, kind, number)
        done += 1
        on_page(file, done, opened.pages)
        return reading

    pages = await asyncio.gather(*(page(number) for number in range(1, opened.pages + 1)))
    return Reading(FileId(0), InboxId(0), os.fsencode(file.name), kind, digest, size, tuple(pages))


async def _page(pool: RenderPool, engine: Engine, by: ReadBy, file: Path, kind: Kind, number: int) -> PageReading:
    began = time.monotonic()
    image = await pool.render(file, kind, number)
    if isinstance(image, PageFailure):
        return lastword.unread(number, image.reason, by, attempts=1)
    text = await engine.read(image)
    if isinstance(text, PageFailure) and text.died:  # perhaps of what another page did
        text = await engine.read(image, attempt=2)
    seconds = time.monotonic() - began
    if isinstance(text, PageFailure):
        return lastword.unread(number, text.reason, by, attempts=1, seconds=seconds)
    verdict = judge(text, ink=image.ink, warnings=image.warnings, last_attempt=True)
    return lastword.read(number, image, text, verdict, by, attempts=1, seconds=seconds)


def _look(file: Path) -> tuple[Kind | None, str, int]:
    with file.open("rb") as data:
        kind = kind_of(data.read(HEAD))
        data.seek(0)
        return kind, hashlib.file_digest(data, "sha256").hexdigest(), file.stat().st_size
