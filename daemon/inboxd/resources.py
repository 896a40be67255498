"""Where the folders that ship with the program lie: inside the package in a wheel, at the root in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The shipped folder `migrations`, `etc` or `systemd`.

    Raises:
        FileNotFoundError: the installation lacks it.
    """
    for candidate in (_PACKAGE / name, _PACKAGE.parents[1] / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"{name} is missing from the installation at {_PACKAGE}")
