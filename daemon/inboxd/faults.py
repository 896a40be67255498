"""Fault points: named places between two steps that touch disk or ledger, where a test may end the process.

`INBOXD_FAULT=name` kills it there as SIGKILL does; `name@3` at the third passage; `name@1:STOP` sends another
signal instead. Unset, as in production, a point does nothing.
"""

from __future__ import annotations

import itertools
import os
import re
import signal

_ARMED = re.compile(r"(?P<name>[\w.]+)(@(?P<passage>\d+))?(:(?P<signal>[A-Z]+))?").fullmatch(
    os.environ.get("INBOXD_FAULT", "")
)
_passages = itertools.count(1)


def point(name: str) -> None:
    """Die here, if the environment of this process names this point."""
    if _ARMED and _ARMED["name"] == name and next(_passages) == int(_ARMED["passage"] or 1):
        os.kill(os.getpid(), signal.Signals[f"SIG{_ARMED['signal'] or 'KILL'}"])
