"""A ledger in a temporary folder, and the clerk who drives it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ledger.clerk import Clerk

from inboxd.ledger.opening import Ledger


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger as it was just made: the migration takes longer than most tests."""
    path = tmp_path_factory.mktemp("ledger") / "empty.sqlite"
    Ledger.open(path).close()
    return path


@pytest.fixture
def path(tmp_path: Path, empty: Path) -> Path:
    return Path(shutil.copy(empty, tmp_path / "ledger.sqlite"))


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger.open(path) as ledger:
        yield ledger


@pytest.fixture
def clerk(ledger: Ledger) -> Clerk:
    return Clerk(ledger)
