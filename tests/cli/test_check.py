"""`inboxd check` finds what would keep the daemon from its work, and says what to do."""

from __future__ import annotations

import errno
import json
import os
import pwd
import re
import sys
import threading
from pathlib import Path

import pytest

from inboxd import config, fonts
from inboxd.cli import check_folders, check_machine
from inboxd.cli.finding import Finding, Level, NoAnswer, patiently
from inboxd.ledger import lock
from inboxd.ledger.opening import Ledger
from inboxd.rooms import mounts
from inboxd.rooms.render.crew import Crew

from .conftest import Ended, Inboxd


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration that is right, on a machine without GPU; the looks that are slow have tests of their own."""
    monkeypatch.setattr(fonts, "missing", list)
    monkeypatch.setattr(check_machine, "sandbox", lambda settings: iter(()))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "in").mkdir()
    file = tmp_path / "c.toml"
    file.write_text(f'state = "{tmp_path}/state"\n[[inbox]]\npath = "{tmp_path}/in"\n[engine]\nname = "null"\n')
    return file


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def findings(ended: Ended) -> dict[str, list[tuple[str, str, str]]]:
    found: dict[str, list[tuple[str, str, str]]] = {}
    for finding in json.loads(ended.out):
        found.setdefault(finding["about"], []).append((finding["level"], finding["says"], finding["advice"]))
    return found


def test_all_is_well(inboxd: Inboxd, written: Path) -> None:
    ended = inboxd("check", "--config", written)
    assert ended.code == 0, ended.out
    assert all(line.startswith(("ok", "warn", "     →")) for line in ended.out.splitlines())
    assert "null: the configuration names it" in ended.out
    assert "watching: 1 folder;" in ended.out
    assert list((written.parent / "in").iterdir()) == []  # its probe is gone


def test_json_has_a_finding_each(inboxd: Inboxd, written: Path) -> None:
    found = findings(inboxd("check", "--json", "--config", written))
    for about in ("configuration", f"inbox {written.parent}/in", f"state {written.parent}/state", "watching", "fonts"):
        assert about in found
        assert all(level == "ok" for level, _, _ in found[about]), found[about]


@pytest.mark.parametrize(
    ("old", "new", "about", "says"),
    [
        ('in"\n', 'missing"\n', "inbox {}/missing", "does not exist"),
        ('in"\n', 'c.toml"\n', "inbox {}/c.toml", "is not a folder"),
        ('in"\n', 'in"\noutput_dir = "{}/c.toml"\n', "outputs of {}/in", "is not a folder"),
        ('in"\n', 'in"\nafter = "archive"\narchive_dir = "{}/a/b"\n', "archive of {}/in", "does not exist"),
        ('"null"', '"nonsense"', "engine", "nonsense"),
        ('"null"', '"vllm"', "GPU", "the engine vllm needs one"),
        (
            "[engine]",
            "[intake]\nmin_free_bytes = 9000000000000000000\n[engine]",
            "state {}/state",
            "intake pauses below",
        ),
        ("state =", "stat =", "configuration", "stat"),
    ],
)
def test_what_is_wrong_is_named_with_advice(
    inboxd: Inboxd, written: Path, old: str, new: str, about: str, says: str
) -> None:
    here = str(written.parent)
    edit(written, old, new.replace("{}", here))
    ended = inboxd("check", "--json", "--config", written)
    assert ended.code == 78
    level, said, advice = next(f for f in findings(ended)[about.replace("{}", here)] if f[0] == "fail")
    assert level == "fail"
    assert says in said
    assert advice


def test_folders_that_can_be_made_are_no_fault(inboxd: Inboxd, written: Path) -> None:
    edit(written, 'in"\n', f'in"\noutput_dir = "{written.parent}/text"\n')
    found = findings(inboxd("check", "--json", "--config", written))
    assert found[f"outputs of {written.parent}/in"] == [("ok", f"{written.parent}/text will be made", "")]


def test_a_read_only_inbox_is_a_warning_that_names_user_and_mode(
    inboxd: Inboxd, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def read_only(path: str | bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if Path(os.fsdecode(path)).parent.name == "in" and flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(check_folders.os, "open", read_only)
    ended = inboxd("check", "--json", "--config", written)
    assert ended.code == 0
    level, says, advice = findings(ended)[f"inbox {written.parent}/in"][-1]
    assert level == "warn"
    assert "Read-only file system" in says
    assert "mode 0" in says
    assert "output_dir" in advice


def test_shares_are_polled_and_never_hold_the_ledger(
    inboxd: Inboxd, written: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mountinfo = tmp_path / "mountinfo"
    descriptor = os.open(tmp_path, os.O_RDONLY)
    own = mounts.mount_id(descriptor)
    os.close(descriptor)
    real = Path("/proc/self/mountinfo").read_text()
    mountinfo.write_text(re.sub(rf"(?m)^({own} .* - )\S+", r"\1cifs", real))
    monkeypatch.setattr(mounts, "MOUNTINFO", mountinfo)
    found = findings(inboxd("check", "--json", "--config", written))
    assert "polling every 5 s (cifs" in found[f"inbox {tmp_path}/in"][0][1]
    level, says, _ = found[f"state {tmp_path}/state"][0]
    assert level == "fail"
    assert "cifs" in says
    assert found["watching"][0][1].startswith("0 folders")
    edit(written, 'in"\n', 'in"\nwatch = "events"\n')
    assert findings(inboxd("check", "--json", "--config", written))[f"inbox {tmp_path}/in"][0][0] == "warn"


def test_the_ledger_and_a_running_daemon_are_told(inboxd: Inboxd, written: Path) -> None:
    path = written.parent / "state" / "ledger.sqlite"
    assert "none yet" in findings(inboxd("check", "--json", "--config", written))["ledger"][0][1]
    Ledger.open(path).close()
    with lock.own(path):
        found = findings(inboxd("check", "--json", "--config", written))
    assert found["ledger"][0][0] == "ok"
    assert f"process {os.getpid()}" in found["daemon"][0][1]
    path.write_bytes(b"not a ledger, whatever it is" * 100)
    ended = inboxd("check", "--json", "--config", written)
    assert ended.code == 78
    assert findings(ended)["ledger"][0][0] == "fail"


def test_a_state_folder_that_is_closed_to_us_is_told(confined: Inboxd, written: Path) -> None:
    state = written.parent / "state"
    state.mkdir(mode=0)
    try:
        ended = confined("check", "--json", "--config", written)
    finally:
        state.chmod(0o700)
    assert (ended.code, ended.err) == (78, "")
    found = findings(ended)
    for about in (f"state {state}", "ledger"):
        ((level, says, advice),) = found[about]
        assert level == "fail"
        assert "Permission denied" in says
        assert "daemon's user" in advice
    assert "engine" in found, "it looks at the rest all the same"


def test_looking_as_somebody_else_than_the_service_is_said(
    inboxd: Inboxd, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody: dict[str, pwd.struct_passwd] = {}
    monkeypatch.setattr(check_folders.pwd, "getpwnam", nobody.__getitem__)
    assert "user" not in findings(inboxd("check", "--json", "--config", written))
    mine = pwd.getpwuid(os.geteuid())
    someone = pwd.struct_passwd((*mine[:2], mine.pw_uid + 1, *mine[3:]))
    monkeypatch.setattr(check_folders.pwd, "getpwnam", {"inboxd": someone}.__getitem__)
    ((level, _, advice),) = findings(inboxd("check", "--json", "--config", written))["user"]
    assert level == "warn"
    assert f"sudo -u inboxd inboxd check --config {written}" in advice
    monkeypatch.setattr(check_folders.pwd, "getpwnam", {"inboxd": mine}.__getitem__)
    assert "user" not in findings(inboxd("check", "--json", "--config", written))


def test_a_share_that_hangs_does_not_hang_the_check() -> None:
    forever = threading.Event()
    with pytest.raises(NoAnswer):
        patiently(forever.wait, seconds=0.05)
    forever.set()


def test_the_engine_is_started_on_request(inboxd: Inboxd, written: Path) -> None:
    found = findings(inboxd("check", "--json", "--engine", "--config", written))
    assert found["engine start"][0][0] == "ok"


def test_a_hostile_inbox_cannot_write_on_the_screen(inboxd: Inboxd, written: Path) -> None:
    edit(written, 'in"\n', 'in\\u001b[31m\\nok   all: is well"\n')
    ended = inboxd("check", "--config", written)
    assert ended.code == 78
    assert "\x1b" not in ended.out
    assert "\nok   all" not in ended.out


def sandbox_without(*walls: str) -> Finding:
    """What `check` says of the sandbox on a machine without these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Crew, "lacks", property(lambda _: walls, lambda _, value: None), raising=False)
        (finding,) = check_machine.sandbox(config.Settings())
    return finding


def test_too_few_watches_are_told_with_the_commands_of_the_docs(
    inboxd: Inboxd, written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_machine, "_INOTIFY", written.parent)
    (written.parent / "max_user_watches").write_text("5")
    ((level, says, advice),) = findings(inboxd("check", "--json", "--config", written))["watching"]
    assert (level, says) == ("warn", "1 folder, and the kernel lets a user watch 5")
    docs = (Path(__file__).parents[2] / "docs/troubleshooting.md").read_text()
    assert "\n".join(advice.splitlines()[1:]) in docs


def test_a_sandbox_that_is_incomplete_is_told_with_what_it_lacks() -> None:
    full, partly, none = (
        sandbox_without(),
        sandbox_without("Landlock (no)"),
        sandbox_without("Landlock (no)", "seccomp"),
    )
    assert (full.level, partly.level, none.level) == (Level.OK, Level.WARN, Level.WARN)
    assert full.says.startswith("full")
    assert partly.says == "partly: what opens documents is shut in without Landlock (no)"
    assert none.says == "none: what opens documents is shut in without Landlock (no) and seccomp"
    assert "libseccomp2" in partly.advice


def test_no_renderer_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    (finding,) = check_machine.sandbox(config.Settings())
    assert finding.level is Level.FAIL
    assert "no render process can be started" in finding.says


def test_the_installed_renderer_has_its_fonts() -> None:
    assert fonts.missing() == []


def test_the_folder_that_one_looks_from_lends_no_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator may well stand in an inbox, where anybody drops files."""
    for module in ("pymupdf", "subprocess"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    assert fonts.missing() == []


def test_missing_glyphs_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    latin, twins = ("STSong-Light", "UniGB-UTF16-H", "GB1", "中文"), ("STSong-Light", "UniGB-UTF16-H", "GB1", "中中")
    blank = ("STSong-Light", "UniGB-UTF16-H", "GB1", "\u3000文")
    monkeypatch.setattr(fonts, "_SAMPLES", {"drawn": latin, "empty boxes": twins, "nothing": blank})
    assert fonts._undrawn() == ["empty boxes", "nothing"]
