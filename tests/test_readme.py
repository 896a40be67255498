"""Every test that tests/README.md names is there."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_test_that_is_named_is_there() -> None:
    named = re.findall(r"`([\w/.]+\.py)::(\w+)`", (HERE / "README.md").read_text())
    assert len(named) > 80
    gone = [f"{module}::{name}" for module, name in named if f"def {name}(" not in (HERE / module).read_text()]
    assert not gone
