"""Intake killed between any two of its steps: the next life takes the file once, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.rooms.intake_stage import Stage
from tests.rooms.test_intake import distinct, on, sha256

ROOT = Path(__file__).parents[2]
FILES = 3


def live(home: Path, fault: str = "") -> int:
    environment = {**os.environ, "INBOXD_FAULT": fault}
    return subprocess.run(
        [sys.executable, "-m", "tests.rooms.intake_stage", str(home)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        check=False,
    ).returncode


@pytest.mark.parametrize("passage", [1, FILES])
@pytest.mark.parametrize("fault", ["spool.copied", "spool.named", "intake.copied", "intake.accepted"])
def test_killed_at_a_step(tmp_path: Path, fault: str, passage: int) -> None:
    stage = Stage(tmp_path)
    for number in range(FILES):
        (stage.inbox / f"{number}.pdf").write_bytes(distinct(number))
    assert live(tmp_path, f"{fault}@{passage}") == -signal.SIGKILL
    stage.spool.sweep({sha256(distinct(number)) for number in range(FILES)})

    async def play(stage: Stage) -> None:
        for number in range(FILES):
            await stage.becomes(f"{number}.pdf", "ready")
        await stage.settled()
        assert [row.state for row in stage.files(all_versions=True)] == ["ready"] * FILES
        assert stage.copies() == {sha256(distinct(number)): distinct(number) for number in range(FILES)}
        assert all(stage.spool.path(row.sha256 or "").is_file() for row in stage.files())
        assert sorted(os.listdir(stage.inbox)) == [".inboxd-inbox", *(f"{number}.pdf" for number in range(FILES))]

    on(stage, play)


def test_a_life_that_ends_in_order_leaves_what_settles_to_the_next(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.settings["settle"] = 30.0
    for number in range(FILES):
        (stage.inbox / f"{number}.pdf").write_bytes(distinct(number))

    async def settle(stage: Stage) -> None:
        await stage.until(lambda: len(stage.rows()) == FILES, "all to have a row")

    async def play(stage: Stage) -> None:
        for number in range(FILES):
            await stage.becomes(f"{number}.pdf", "ready")
        assert len(stage.files(all_versions=True)) == FILES

    on(stage, settle)
    stage.settings["settle"] = 0.3
    on(stage, play)
