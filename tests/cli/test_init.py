"""The configuration that `init` writes works, keeps the comments, and can't drift from the program's defaults."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from inboxd import config
from inboxd.cli import sample
from inboxd.resources import folder

from .conftest import Inboxd

SAMPLE = (folder("etc") / "inboxd.toml").read_text()


def test_the_sample_shows_every_setting_at_its_default() -> None:
    shown = tomllib.loads(re.sub(r"(?m)^# (?=\w+ = )", "", SAMPLE))
    defaults = msgspec.to_builtins(msgspec.structs.replace(config.Settings(), inbox=(config.Inbox(path="/srv/scans"),)))
    assert _paths(shown) == _paths(defaults)
    for path in _paths(defaults):
        if _at(defaults, path) is not None:  # None can't be written in TOML: the sample has an example
            assert _at(shown, path) == _at(defaults, path), path


def test_the_sample_as_shipped_is_the_defaults() -> None:
    assert config.parse(SAMPLE.encode(), "sample") == config.Settings(inbox=(config.Inbox(path="/srv/scans"),))


def test_init_writes_what_run_takes(inboxd: Inboxd, tmp_path: Path) -> None:
    file, state, one, two = (tmp_path / name for name in ("c.toml", "state", "one", "two"))
    one.mkdir()
    ended = inboxd("init", "--config", file, "--inbox", one, "--inbox", two, "--state", state, "--engine", "null")
    assert ended.code == 0
    settings = config.load(file)
    assert [inbox.path for inbox in settings.inbox] == [str(one), str(two)]
    assert settings.state == str(state)
    assert settings.engine.name == "null"
    assert "# settle = 3.0" in file.read_text()
    assert two.is_dir()
    assert f"Made the inbox {two}" in ended.out
    assert str(one) not in ended.out
    assert (state.stat().st_mode & 0o777) == 0o750
    assert "inboxd check --config" in ended.out


def test_init_refuses_to_write_over(inboxd: Inboxd, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("# mine\n")
    arguments = ("init", "--config", file, "--inbox", tmp_path / "in", "--state", tmp_path / "st")
    ended = inboxd(*arguments)
    assert ended.code == 1
    assert "--force" in ended.err
    assert file.read_text() == "# mine\n"
    assert inboxd(*arguments, "--force").code == 0
    assert config.load(file).inbox[0].path == str(tmp_path / "in")


def test_init_without_a_terminal_does_not_ask(process: Inboxd, tmp_path: Path) -> None:
    ended = process("init", "--config", tmp_path / "c.toml", stdin="/somewhere\n")
    assert ended.code == 64
    assert "--inbox" in ended.err


def test_init_refuses_what_run_would_refuse_before_it_makes_anything(inboxd: Inboxd, tmp_path: Path) -> None:
    ended = inboxd("init", "--config", tmp_path / "c.toml", "--inbox", tmp_path / "a", "--state", tmp_path / "a/st")
    assert ended.code == 78
    assert "overlap" in ended.err
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "c.toml").exists()


def test_relative_folders_become_absolute(inboxd: Inboxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert inboxd("init", "--config", "c.toml", "--inbox", "in", "--state", "st").code == 0
    assert config.load(tmp_path / "c.toml").inbox[0].path == str(tmp_path / "in")


@pytest.mark.skipif(os.geteuid() == 0, reason="root's place is /etc")
def test_without_config_a_user_gets_one_at_home(inboxd: Inboxd, tmp_path: Path) -> None:
    assert inboxd("init", "--inbox", tmp_path / "in").code == 0
    assert config.load(tmp_path / "home/.config/inboxd/inboxd.toml").state == str(tmp_path / "home/.local/state/inboxd")


def test_the_next_command_is_about_the_file_that_was_written(
    inboxd: Inboxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a service is installed its configuration goes before one's own."""
    service, own = tmp_path / "etc.toml", tmp_path / "home/.config/inboxd/inboxd.toml"
    monkeypatch.setattr(config, "DEFAULT_CONFIG", service)
    for others, option in ((False, ""), (True, f" --config {own}")):
        if others:
            service.touch()
        ended = inboxd("init", "--force", "--inbox", tmp_path / "in", "--config", own)
        assert f"Next: inboxd check{option}, then inboxd run{option}\n" in ended.out


@pytest.mark.parametrize(
    "name", [b'sp ace "quote" back\\slash', b"caf\xe9", b"line\nbreak", "受信箱".encode(), b"#x='''"]
)
def test_any_folder_name_survives_the_configuration(process: Inboxd, tmp_path: Path, name: bytes) -> None:
    inbox = os.fsencode(tmp_path) + b"/" + name
    ended = process("init", "--config", tmp_path / "c.toml", "--inbox", inbox, "--state", tmp_path / "st")
    assert ended.code == 0, ended.err
    assert os.fsencode(config.load(tmp_path / "c.toml").inbox[0].path) == inbox
    assert "\n\n" not in ended.out


def test_the_template_is_filled_where_it_should_be() -> None:
    text = sample.filled("/s", ["/a", "/b"], "cpu").decode()
    changed = [line for line in text.splitlines() if line not in SAMPLE.splitlines()]
    assert changed == ['state = "/s"', 'path = "/a"', 'path = "/b"', 'name = "cpu"']


def _paths(value: object, prefix: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    if isinstance(value, dict):
        return {path for key, inner in value.items() for path in _paths(inner, (*prefix, key))}
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
        return _paths(value[0], (*prefix, 0))
    return {prefix}


def _at(value: object, path: tuple[str | int, ...]) -> object:
    for key in path:
        value = value[key]  # type: ignore[index]
    return list(value) if isinstance(value, tuple) else value
