"""What a running daemon takes from a changed configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from inboxd.config import load
from inboxd.errors import ConfigError
from inboxd.reloading import reread

BEFORE = '[[inbox]]\npath = "/srv/scans"\n'


def test_some_settings_change_at_once_and_the_rest_is_named(tmp_path: Path) -> None:
    file = tmp_path / "inboxd.toml"
    file.write_text(BEFORE)
    running = load(file)
    file.write_text('log_level = "debug"\ndrain_timeout = 5\n' + BEFORE + "settle = 9\n[health]\ninterval = 5\n")
    again = reread(file, running)
    assert again.at_once == ("health", "log_level")
    assert again.at_restart == ("inbox", "drain_timeout")
    assert (again.settings.health.interval, again.settings.log_level) == (5, "debug")
    assert (again.settings.inbox, again.settings.drain_timeout) == (running.inbox, running.drain_timeout)


def test_nothing_changed_is_nothing_to_say(tmp_path: Path) -> None:
    file = tmp_path / "inboxd.toml"
    file.write_text(BEFORE)
    again = reread(file, load(file))
    assert (again.at_once, again.at_restart) == ((), ())


def test_a_wrong_configuration_is_refused_as_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "inboxd.toml"
    file.write_text(BEFORE)
    running = load(file)
    file.write_text("wrong = 1\n" + BEFORE)
    with pytest.raises(ConfigError, match="wrong"):
        reread(file, running)
