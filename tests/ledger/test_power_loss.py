"""The power fails while the ledger is written, two hundred times: it opens, is whole, and has all it acknowledged."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 200
SCRIPT = Path(__file__).with_name("power_loss.py")


@pytest.mark.slow
def test_killed_two_hundred_times_under_load(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    run = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "ledger.sqlite", str(KILLS), str(seed)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, f"seed {seed}\n{run.stderr}"
    acknowledged = json.loads(run.stdout)
    assert acknowledged.keys() == {"runs", "seen", "ready", "opened", "read", "done"}, "too little was written to tell"
