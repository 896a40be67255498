"""Fault points: off unless the environment names one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = "from inboxd.faults import point; [point(name) for name in ('here', 'there', 'here')]; print('alive')"


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("", 0, b"alive\n"),
        ("elsewhere", 0, b"alive\n"),
        ("here", -signal.SIGKILL, b""),
        ("here@2:TERM", -signal.SIGTERM, b""),
        ("here@3", 0, b"alive\n"),
    ],
)
def test_a_process_ends_at_the_named_passage_and_nowhere_else(fault: str, code: int, said: bytes) -> None:
    environment = {**os.environ, "INBOXD_FAULT": fault}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (code, said)
