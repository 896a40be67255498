"""Exit codes, words on stderr, and what every verb owes: help, --config, a place in the docs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import pytest

from inboxd import __version__
from inboxd.cli.app import app
from inboxd.errors import Exit

from .conftest import Inboxd

COMMANDS = app.commands
DOCS = Path(__file__).parents[2] / "docs"


def test_version(process: Inboxd) -> None:
    for asked in ("version", "--version"):
        assert process(asked).out == f"inboxd {__version__}\n"


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("nonsense",),
        ("files", "--nonsense"),
        ("files", "--state", "nonsense"),
        ("files", "--limit", "0"),
        ("show",),
        ("search",),
        ("sql",),
        ("ocr",),
        ("ocr", ""),
        ("init", "--config", "/dev/null/nonesuch/c.toml", "--inbox", "", "--state", "/dev/null/nonesuch/state"),
        ("init", "--config", "/dev/null/nonesuch/c.toml", "--inbox", "/dev/null/nonesuch/in", "--state", ""),
        ("install-service", "--root", "/dev/null/nonesuch", "--inbox", "", "--program", "/usr/bin/true"),
        ("status", "--config", ""),
        ("requeue",),
        ("requeue", "a.pdf", "--failed"),
        ("sql", "--json", "--csv", "SELECT 1"),
    ],
)
def test_wrong_usage_is_64_and_told_on_stderr(inboxd: Inboxd, wrong: tuple[str, ...]) -> None:
    ended = inboxd(*wrong)
    assert ended.code == Exit.USAGE == 64
    assert ended.out == ""
    assert ended.err


def test_no_configuration_says_where_it_was_looked_for(inboxd: Inboxd, tmp_path: Path) -> None:
    ended = inboxd("status")
    assert ended.code == Exit.CONFIG == 78
    assert "INBOXD_CONFIG" in ended.err
    assert "/etc/inboxd/inboxd.toml" in ended.err
    assert str(tmp_path / "home/.config/inboxd/inboxd.toml") in ended.err
    assert "inboxd init" in ended.err
    assert "Traceback" not in ended.err


def test_the_configuration_is_found_by_option_variable_and_home(inboxd: Inboxd, tmp_path: Path) -> None:
    """Each configuration is recognised by the state folder that has no ledger yet."""
    home, variable, option = (tmp_path / name for name in ("home/.config/inboxd/inboxd.toml", "v.toml", "o.toml"))
    home.parent.mkdir(parents=True)
    for file in (home, variable, option):
        file.write_text(f'state = "/nowhere/{file.stem}-{file.parent.name}"\n')
    assert "/nowhere/inboxd-inboxd" in inboxd("files").err
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INBOXD_CONFIG", str(variable))
        assert "/nowhere/v-" in inboxd("files").err
        assert "/nowhere/o-" in inboxd("files", "--config", option).err


def test_a_configuration_that_cannot_be_read_is_told_not_passed_over(inboxd: Inboxd, tmp_path: Path) -> None:
    file = tmp_path / "home/.config/inboxd/inboxd.toml"
    file.mkdir(parents=True)
    page = tmp_path / "page.png"
    page.write_bytes(b"")
    for arguments in (("files",), ("ocr", page)):
        ended = inboxd(*arguments)
        assert ended.code == 78
        assert f"cannot read the configuration {file}" in ended.err
        assert "Name the file itself" in ended.err


def test_a_configuration_without_permission_is_no_wrong_usage(confined: Inboxd, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.touch(0)
    ended = confined("files", "--config", file)
    assert ended.code == 78
    assert f"cannot read the configuration {file}: Permission denied" in ended.err
    assert "as the daemon's user" in ended.err


def test_a_state_folder_that_cannot_be_made_is_a_wrong_setting(inboxd: Inboxd, tmp_path: Path) -> None:
    """Systemd need not try again."""
    file = tmp_path / "c.toml"
    file.write_text(f'state = "/proc/inboxd"\n[[inbox]]\npath = "{tmp_path}/in"\n')
    ended = inboxd("run", "--config", file)
    assert ended.code == 78
    assert "cannot make the state folder /proc/inboxd: " in ended.err
    assert "set `state`" in ended.err


def test_a_wrong_setting_is_named(inboxd: Inboxd, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[engine]\nnaem = 1\n")
    ended = inboxd("status", "--config", file)
    assert ended.code == Exit.CONFIG
    assert "naem" in ended.err


def test_hostile_arguments_reach_the_terminal_escaped(process: Inboxd) -> None:
    for arguments in (
        (b"fo\x1b[31mo\xff",),
        (b"show", b"--\x1b[31mo\xff"),
        (b"status", b"--config", b"\x1b[31m\xff\n"),
    ):
        ended = process(*arguments)
        assert ended.code in (Exit.USAGE, Exit.CONFIG)
        assert "\x1b" not in ended.err
        assert "Traceback" not in ended.err


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_every_verb_has_help_and_stands_in_the_docs(inboxd: Inboxd, verb: str) -> None:
    ended = inboxd(verb, "--help")
    assert ended.code == 0
    assert len(ended.out.splitlines()) > 3
    parameters = COMMANDS[verb].params
    assert all(parameter.help for parameter in parameters if isinstance(parameter, click.Option)), verb
    assert f"`inboxd {verb}" in (DOCS / "operators.md").read_text()


def test_no_verb_is_cut_short_in_the_overview(inboxd: Inboxd) -> None:
    ended = inboxd("--help")
    assert all(f"\n  {verb} " in ended.out for verb in COMMANDS)
    assert "..." not in ended.out.partition("Commands:")[2]


@pytest.mark.parametrize("verb", sorted(set(COMMANDS) - {"version", "install-service", "uninstall-service"}))
def test_every_verb_takes_the_configuration(verb: str) -> None:
    assert any("--config" in parameter.opts for parameter in COMMANDS[verb].params)


def test_a_reader_that_leaves_early_is_no_error(process: Inboxd, tmp_path: Path) -> None:
    """`inboxd ... | head -1`"""
    read, write = os.pipe()
    child = subprocess.Popen([sys.executable, "-m", "inboxd", "--help"], stdout=write, stderr=subprocess.PIPE)
    os.close(read)
    os.close(write)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 141
    assert err == b""


def test_closed_streams_are_nobody_listening(tmp_path: Path) -> None:
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        assert subprocess.run(["sh", "-c", f"{sys.executable} -m inboxd version {closed}"], check=False).returncode == 0


def test_output_that_cannot_be_written_is_told_in_a_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "inboxd", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "inboxd: No space left on device\n")


def test_what_the_system_refuses_is_told_with_its_name(
    inboxd: Inboxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no verb has words of its own for it: here there is no folder to put temporary files in."""
    (tmp_path / "page.png").write_bytes(b"")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere\x1b[31m"))
    ended = inboxd("ocr", tmp_path / "page.png")
    assert ended.code == Exit.FAILED == 1
    assert ended.err.startswith("inboxd: No such file or directory: ")
    assert "nowhere" in ended.err and "\x1b" not in ended.err


def test_shells_complete_verbs(process: Inboxd) -> None:
    ended = process(_INBOXD_COMPLETE="bash_complete", COMP_WORDS="inboxd sta", COMP_CWORD="1")
    assert "status" in ended.out
    assert "inboxd" in process(_INBOXD_COMPLETE="bash_source").out


def test_names_from_everywhere_pass_a_locale_that_lacks_them(process: Inboxd, tmp_path: Path) -> None:
    ended = process("init", "--config", "c.toml", "--inbox", "受信箱", "--state", "st", LC_ALL="C", PYTHONUTF8="0")
    assert ended.code == 0
    assert "受信箱" in ended.out


def test_both_entries_are_the_same_program(process: Inboxd) -> None:
    script = Path(sys.executable).with_name("inboxd")
    done = subprocess.run([script, "version"], capture_output=True, text=True, check=True)
    assert done.stdout == process("version").out
