"""What is never taken, and reading files without a daemon."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from tests.ledger.clerk import Clerk

from inboxd.ledger import deliveries
from inboxd.ledger.opening import Ledger
from inboxd.model import Written

from .conftest import Inboxd

SAMPLES = Path(__file__).parents[1] / "samples"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    file = tmp_path / "c.toml"
    file.write_text(
        f'state = "{tmp_path}/state"\n[engine]\nname = "null"\n'
        f'[[inbox]]\npath = "{tmp_path}/in"\nexclude = ["drafts"]\n'
    )
    return file


def test_ignored_names_the_rule(inboxd: Inboxd, config: Path) -> None:
    inbox = config.parent / "in"
    for name in ("scan.pdf", "._scan.pdf", "big.pdf.crdownload", "@eaDir/scan.pdf", "drafts/a.pdf", "sub/~$a.docx"):
        (inbox / name).parent.mkdir(exist_ok=True)
        (inbox / name).write_bytes(b"x")
    (inbox / "scan.pdf.md").write_bytes(b"an output")
    ended = inboxd("ignored", "--json", "--config", config)
    assert ended.code == 0
    told = {os.path.relpath(row["path"], inbox): (row["glob"], row["why"]) for row in json.loads(ended.out)}
    assert told.keys() == {"._scan.pdf", "big.pdf.crdownload", "@eaDir", "drafts", "sub/~$a.docx"}
    assert all(glob and why for glob, why in told.values())
    plain = inboxd("ignored", "--config", config)
    assert "Not listed: 1 output of" in plain.err
    assert "scan.pdf.md" in inboxd("ignored", "--outputs", "--config", config).out


def test_ignored_knows_outputs_by_the_ledger(inboxd: Inboxd, config: Path) -> None:
    inbox = config.parent / "in"
    (inbox / "moved.txt").write_bytes(b"the name tells nothing")
    with Ledger.open(config.parent / "state" / "ledger.sqlite") as ledger:
        clerk = Clerk(ledger)
        output = Written(os.fsencode(inbox / "moved.txt"), "txt", "0" * 64, 22)
        clerk.do(deliveries.delivered, clerk.read(), [output])
    assert "moved.txt" in inboxd("ignored", "--outputs", "--config", config).out
    assert "moved.txt" not in inboxd("ignored", "--config", config).out


def test_ignored_tells_of_a_folder_that_cannot_be_listed(inboxd: Inboxd, config: Path) -> None:
    (config.parent / "in").rmdir()
    ended = inboxd("ignored", "--config", config)
    assert ended.code == 0
    assert "cannot be listed: No such file" in ended.out


@pytest.mark.parametrize("form", ["txt", "md", "json"])
def test_ocr_prints_the_text(process: Inboxd, config: Path, form: str) -> None:
    ended = process("ocr", SAMPLES / "nl_notice_digital.pdf", "--format", form, "--config", config)
    assert ended.code == 0, ended.err
    assert ended.err == ""
    if form == "json":
        assert json.loads(ended.out)["pages"]
    else:
        assert ended.out.strip()
    assert not (config.parent / "state").exists()


def test_ocr_writes_beside_and_over_nothing(process: Inboxd, config: Path, tmp_path: Path) -> None:
    file = tmp_path / "letter.png"
    file.write_bytes((SAMPLES / "en_report.png").read_bytes())
    file.chmod(0o754)
    if os.geteuid() == 0:
        os.chown(file, 12345, 23456)
    (tmp_path / "letter.png.md").write_text("mine")
    ended = process("ocr", file, "--beside", "--format", "md", "--config", config)
    assert ended.code == 0, ended.err
    assert ended.out == f"{tmp_path}/letter.png.2.md\n"
    assert (tmp_path / "letter.png.md").read_text() == "mine"
    assert (tmp_path / "letter.png.2.md").read_text()
    original, output = file.stat(), (tmp_path / "letter.png.2.md").stat()
    assert (output.st_uid, output.st_gid) == (original.st_uid, original.st_gid)
    assert stat.S_IMODE(output.st_mode) == 0o644, "the original's readers are its own, and it is no program"


def test_ocr_goes_on_after_a_file_that_cannot_be_read(process: Inboxd, config: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken\x1b[31m.pdf"
    broken.write_bytes(b"%PDF-1.7\nnothing more")
    ended = process("ocr", broken, SAMPLES / "en_report.png", "--config", config)
    assert ended.code == 1
    assert ended.out.strip()
    assert "broken" in ended.err
    assert "\x1b" not in ended.err


def test_ocr_goes_on_after_a_file_that_it_may_not_open(confined: Inboxd, config: Path, tmp_path: Path) -> None:
    closed, shut = tmp_path / "closed.png", tmp_path / "shut"
    closed.write_bytes(b"")
    shut.mkdir()
    (shut / "in.png").write_bytes(b"")
    closed.chmod(0)
    shut.chmod(0)
    try:
        ended = confined("ocr", closed, shut / "in.png", SAMPLES / "en_report.png", "--config", config)
    finally:
        shut.chmod(0o700)
    assert ended.code == 1
    assert ended.out.strip(), "the third is read"
    for file in (closed, shut / "in.png"):
        assert f"inboxd: {file}: cannot be read: Permission denied" in ended.err
    assert "Traceback" not in ended.err


def test_ignored_without_permission_to_the_ledger(confined: Inboxd, config: Path) -> None:
    state = config.parent / "state"
    state.mkdir(mode=0)
    try:
        ended = confined("ignored", "--config", config)
    finally:
        state.chmod(0o700)
    assert ended.code == 78
    assert "Permission denied" in ended.err and "daemon's user" in ended.err
    assert "Traceback" not in ended.err


def test_ocr_without_renderers_is_70(inboxd: Inboxd, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    ended = inboxd("ocr", SAMPLES / "en_report.png", "--config", config)
    assert ended.code == 70
    assert "no render process can be started" in ended.err


def test_ocr_of_what_is_no_file(inboxd: Inboxd, config: Path, tmp_path: Path) -> None:
    missing = tmp_path / "nonesuch.pdf"
    for wrong, told in ((tmp_path, f"{tmp_path} is not a file"), (missing, f"there is no file {missing}")):
        ended = inboxd("ocr", wrong, "--config", config)
        assert ended.code == 1
        assert told in ended.err
