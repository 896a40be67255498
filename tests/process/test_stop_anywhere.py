"""SIGTERM at each stage of a file's life: this life ends in order, and the next one goes on as if nothing had been."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.process.test_crash_matrix import Scene

pytestmark = pytest.mark.slow

STAGES = (
    "service.begun",
    "intake.recorded", "spool.copied", "intake.accepted", "opening.claimed", "rendering.claimed", "reading.read",
    "placing.synced", "assembly.outputs_written", "archiving.renamed",
)  # fmt: skip


@pytest.mark.parametrize("stage", STAGES)
def test_asked_to_stop(tmp_path: Path, stage: str) -> None:
    scene = Scene(tmp_path)
    assert scene.live(f"{stage}@1:TERM") == 0, scene.log()
    assert [(code, "SIGTERM" in reason) for code, reason in scene.sql("SELECT exit_code, reason FROM runs")] == [
        (0, True)
    ], f"{stage} was not met\n{scene.log()}"
    assert scene.sql("SELECT count(*) FROM pages WHERE state = 'in_flight'") == [(0,)]
    assert not list(tmp_path.rglob(".inboxd-*.tmp")), "a life that ends in order leaves nothing half-written"
    scene.recover()
