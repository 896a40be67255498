"""Re-reading the configuration while the daemon runs: what changes at once, and what waits for a restart."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from inboxd.config import Settings, load

LIVE = ("log_level", "health", "prune")
"""Settings that nothing is built from: they are looked up whenever they are needed."""


@dataclass(frozen=True, slots=True)
class Reread:
    """What came of it: the settings that hold from now on, and the names that changed."""

    settings: Settings
    at_once: tuple[str, ...]
    at_restart: tuple[str, ...]


def reread(path: Path, running: Settings) -> Reread:
    """Read the configuration again.

    Raises:
        ConfigError: it is wrong now; the running settings go on to hold.
    """
    fresh = load(path)
    changed = [name for name in Settings.__struct_fields__ if getattr(fresh, name) != getattr(running, name)]
    at_once = tuple(name for name in changed if name in LIVE)
    return Reread(
        settings=msgspec.structs.replace(running, **{name: getattr(fresh, name) for name in at_once}),
        at_once=at_once,
        at_restart=tuple(name for name in changed if name not in LIVE),
    )
