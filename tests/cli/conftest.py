"""`inboxd` as a person or a script meets it: a process with an exit code, or `main` in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from inboxd.cli import main


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Inboxd = Callable[..., Ended]


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's real configuration, and no colours or widths from whoever runs the tests."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("INBOXD_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "NO_COLOR", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def process(tmp_path: Path) -> Inboxd:
    """A real one."""

    def run(*arguments: str | bytes | Path, stdin: str = "", **env: str) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "inboxd", *arguments],
            input=stdin.encode(),
            capture_output=True,
            env={**os.environ, **env},
            cwd=tmp_path,
            timeout=120,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def inboxd(capsys: pytest.CaptureFixture[str]) -> Inboxd:
    """In this process: quicker."""

    def run(*arguments: str | Path) -> Ended:
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Ended(code, said.out, said.err)

    return run
