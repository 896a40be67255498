from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def may_mount() -> bool:
    try:
        return subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "x", "/mnt"], check=False).returncode == 0
    except FileNotFoundError:
        return False


def test_an_inbox_and_a_mount_in_it_come_and_go(tmp_path: Path) -> None:
    if not may_mount():
        pytest.skip("needs root, and unshare, to mount")
    command = ["unshare", "--mount", sys.executable, "-m", "tests.rooms.mounts_stage", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
