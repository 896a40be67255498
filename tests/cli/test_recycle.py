"""Asking a daemon for a new life."""

from __future__ import annotations

from pathlib import Path

import pytest

from inboxd.cli.recycle import recycle
from inboxd.errors import InboxdError
from inboxd.ledger import lock, upkeep
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader


def configured(folder: Path) -> Path:
    file = folder / "inboxd.toml"
    file.write_text(f'state = "{folder}/state"\n[[inbox]]\npath = "{folder}/inbox"\n')
    (folder / "state").mkdir()
    return file


def ask(config: Path) -> None:
    recycle.main([f"--config={config}"], standalone_mode=False)


def test_without_a_daemon_there_is_nobody_to_ask(tmp_path: Path) -> None:
    with pytest.raises(InboxdError, match="no daemon runs"):
        ask(configured(tmp_path))


def test_each_time_it_is_asked_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configured(tmp_path)
    path = tmp_path / "state/ledger.sqlite"
    monkeypatch.setenv("SUDO_USER", "anna")
    with lock.own(path):
        Ledger.open(path).close()
        seen = []
        for _ in range(2):
            ask(config)
            with Reader(path) as reader:
                seen.append(reader.control(upkeep.RECYCLE))
    assert all(asked is not None and asked.startswith("anna at ") for asked in seen)
    assert len(set(seen)) == 2
