"""The real vLLM, in its CPU build, on the tiny checkpoint; without vLLM these tests are skipped, and say so."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "engines"))
sys.path.insert(0, str(HERE.parents[1]))

MODEL = HERE.parent / "tiny_lightonocr"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec("vllm") is None:
        why = pytest.mark.skip(reason="vLLM is not installed here: run `make test-vllm`, which brings its own")
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(why)
