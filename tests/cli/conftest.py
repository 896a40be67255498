"""`inboxd` as a person or a script meets it: a process with an exit code, or `main` in this one."""

from __future__ import annotations

import os
import shutil
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


CONFINED = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner")
"""Root obeys permissions without these."""


@pytest.fixture
def process(tmp_path: Path) -> Inboxd:
    """A real one."""
    return _runner(tmp_path)


@pytest.fixture
def confined(tmp_path: Path) -> Inboxd:
    """A real one that permissions hold for, whoever runs the tests."""
    if os.geteuid() != 0:
        return _runner(tmp_path)
    if shutil.which(CONFINED[0]) is None:
        pytest.skip(f"needs {CONFINED[0]}: root may read anything")
    return _runner(tmp_path, *CONFINED)


def _runner(folder: Path, *before: str) -> Inboxd:
    def run(*arguments: str | bytes | Path, stdin: str = "", **env: str) -> Ended:
        done = subprocess.run(
            [*before, sys.executable, "-m", "inboxd", *arguments],
            input=stdin.encode(),
            capture_output=True,
            env={**os.environ, **env},
            cwd=folder,
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
