"""Texts for systemd: the shipped unit with the path of the program in it, and the drop-in that opens the folders."""

from __future__ import annotations

import re
from collections.abc import Sequence

PROGRAM = "/opt/inboxd/bin/inboxd"
"""Where the shipped units expect the program."""

HIDDEN = ("/home", "/root", "/run/user")
"""What ProtectHome= hides from a service."""


def with_program(unit: str, program: str) -> str:
    """The unit, starting the program at this absolute path."""
    return unit.replace(f"ExecStart={PROGRAM} ", f"ExecStart={quoted(program).replace('$', '$$')} ")


def is_hidden(path: str) -> bool:
    """Whether ProtectHome= hides this absolute path."""
    return any(path == home or path.startswith(home + "/") for home in HIDDEN)


def folders(paths: Sequence[str]) -> str:
    """The drop-in that lets the service write in these absolute folders, and see those of them that lie in homes.

    A folder that is missing when the service starts does not stop it; it must be there to be opened, though.
    """
    lines = [
        "# Written by `inboxd install-service` from the configuration; run it again when the folders change.",
        "[Service]",
    ]
    opened = list(dict.fromkeys(_nameable(path) for path in paths))
    at_home = [path for path in opened if is_hidden(path)]
    if at_home:
        lines.append("ProtectHome=tmpfs")
        lines += ["BindPaths=" + quoted(f"-{path}").replace(":", "\\:") for path in at_home]
    lines += [f"ReadWritePaths={quoted('-' + path)}" for path in opened if path not in at_home]
    return "\n".join(lines) + "\n"


def quoted(word: str) -> str:
    """One word of a unit file, whatever it is made of."""
    word = word.replace("%", "%%")
    if re.fullmatch(r"[\w@%+=:,./-]+", word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _nameable(path: str) -> str:
    """The path, or the deepest folder above it whose name a unit file can hold: text without control characters."""
    kept = []
    for part in path.split("/"):
        if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", part):
            break
        kept.append(part)
    return "/".join(kept) or "/"
