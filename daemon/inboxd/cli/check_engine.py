"""Looks at the engine for `inboxd check`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from inboxd import config
from inboxd.cli.finding import Finding, Level
from inboxd.errors import InboxdError

if TYPE_CHECKING:
    from inboxd.engines.protocol import Engine
    from inboxd.model import EngineInfo


def engine(settings: config.Settings, start: bool) -> Iterator[Finding]:
    """Which engine would read, whether it is installed, and, if asked, whether it starts and passes its self-test."""
    from inboxd.engines import registry

    try:
        choice = registry.choose(settings)
        registry.create(settings)
    except InboxdError as error:
        yield Finding(Level.FAIL, "engine", error.what, error.advice)
        return
    yield Finding(Level.OK, "engine", f"{choice.name}: {choice.why}")
    if not start:
        return
    begun = time.monotonic()
    try:
        with registry.logs_aside() as logs:
            info, missing = asyncio.run(_started(registry.create(settings, logs)))
    except InboxdError as error:
        yield Finding(Level.FAIL, "engine start", error.what, error.advice)
    else:
        says = f"{info.model} on {info.device}, ready after {time.monotonic() - begun:.1f} s"
        yield Finding(Level.OK, "engine start", says)
        if missing:
            yield Finding(Level.WARN, "engines", missing, "The daemon reads with the others, and goes on trying.")


async def _started(built: Engine) -> tuple[EngineInfo, str]:
    """What the engine is, and what is missing of it."""
    from inboxd.engines.protocol import Several

    try:
        return await built.start(), built.missing if isinstance(built, Several) else ""
    finally:
        await built.close()
