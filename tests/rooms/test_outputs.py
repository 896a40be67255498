"""Outputs beside their originals: whole, ours only, like the original, and never through a link."""

from __future__ import annotations

import json
import os
import socket
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.rooms.outputs_stage import Stage

from inboxd.core.naming import temporary
from inboxd.rooms import placing
from inboxd.rooms.outputs import Undeliverable, Vanished

BOTH = {"scan.pdf.md", "scan.pdf.json"}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path).drop()


@pytest.fixture(params=["renameat2", "link", "neither"])
def any_filesystem(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if request.param != "renameat2":
        monkeypatch.setattr(placing, "_rename_noreplace", lambda *_: False)
    if request.param == "neither":
        monkeypatch.setattr(os, "link", no_links)


@pytest.mark.usefixtures("any_filesystem")
def test_outputs_stand_beside_the_original_and_it_is_untouched(stage: Stage) -> None:
    before = stage.original.stat()
    written = stage.deliver()
    assert isinstance(written, tuple)
    box = os.fsencode(stage.box)
    assert [(output.format, output.path) for output in written] == [
        ("md", box + b"/scan.pdf.md"),
        ("json", box + b"/scan.pdf.json"),
    ]
    assert stage.names() == BOTH
    assert stage.text("scan.pdf.md") == "What it says.\n"
    assert json.loads(stage.text("scan.pdf.json"))["outputs"] == {"md": written[0].sha256}
    assert stage.original.read_bytes() == b"%PDF a scan"
    assert stage.original.stat() == before


@pytest.mark.usefixtures("any_filesystem")
def test_a_persons_file_is_never_written_over(stage: Stage) -> None:
    notes = stage.box / "scan.pdf.md"
    notes.write_text("keep\n")
    (stage.box / "scan.pdf.2.md").mkdir()
    stage.deliver()
    assert notes.read_text() == "keep\n"
    assert stage.names() == BOTH | {"scan.pdf.2.md", "scan.pdf.3.md"}
    assert stage.text("scan.pdf.3.md") == "What it says.\n"
    assert os.listdir(stage.box / "scan.pdf.2.md") == []


def test_a_new_version_takes_the_place_of_our_old_output(stage: Stage) -> None:
    stage.deliver("Old.")
    stage.drop(b"%PDF another scan").deliver("New.")
    assert stage.names() == BOTH
    assert stage.text("scan.pdf.md") == "New.\n"
    assert json.loads(stage.text("scan.pdf.json"))["pages"][0]["text"] == "New."


def test_an_output_that_a_person_has_edited_is_theirs(stage: Stage) -> None:
    stage.deliver("Old.")
    (stage.box / "scan.pdf.md").write_text("Old, corrected.\n")
    stage.deliver("New.")
    assert stage.text("scan.pdf.md") == "Old, corrected.\n"
    assert stage.text("scan.pdf.2.md") == "New.\n"
    stage.deliver("Newer.")
    assert stage.text("scan.pdf.2.md") == "Newer.\n"
    assert stage.names() == BOTH | {"scan.pdf.2.md"}


@pytest.mark.usefixtures("any_filesystem")
def test_a_file_that_appears_while_we_write_is_not_written_over(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    real = placing.rename_new

    def just_before(*args: Any) -> None:
        monkeypatch.setattr(placing, "rename_new", real)
        (stage.box / "scan.pdf.md").write_text("keep\n")
        real(*args)

    monkeypatch.setattr(placing, "rename_new", just_before)
    stage.deliver()
    assert stage.text("scan.pdf.md") == "keep\n"
    assert stage.names() == BOTH | {"scan.pdf.2.md"}


def test_a_name_that_is_taken_by_something_unseen_is_passed_over(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share may refuse a name for a file that it doesn't list."""
    real = placing.rename_new

    def hidden(source: Any, old: bytes, target: Any, new: bytes) -> None:
        if new == b"scan.pdf.md":
            raise FileExistsError(17, "File exists")
        real(source, old, target, new)

    monkeypatch.setattr(placing, "rename_new", hidden)
    stage.deliver()
    assert stage.names() == {"scan.pdf.2.md", "scan.pdf.json"}


def test_our_output_that_is_edited_while_we_write_is_not_written_over(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.deliver("Old.")
    real = placing.Draft.finish

    def meanwhile(draft: placing.Draft) -> None:
        real(draft)
        (stage.box / "scan.pdf.md").write_text("Corrected.\n")

    monkeypatch.setattr(placing.Draft, "finish", meanwhile)
    stage.deliver("New.")
    assert stage.text("scan.pdf.md") == "Corrected.\n"
    assert stage.text("scan.pdf.2.md") == "New.\n"


def test_an_output_stays_where_it_is_when_the_first_name_gets_free(stage: Stage) -> None:
    notes = stage.box / "scan.pdf.md"
    notes.write_text("keep\n")
    stage.deliver("Old.")
    notes.unlink()
    stage.deliver("New.")
    assert stage.names() == {"scan.pdf.2.md", "scan.pdf.json"}


def test_a_repeat_writes_nothing_again(stage: Stage) -> None:
    def as_written() -> dict[str, tuple[int, ...]]:  # all of its status but when it was last read
        found = {name: (stage.box / name).stat() for name in BOTH}
        return {name: (is_.st_ino, is_.st_size, is_.st_mtime_ns, is_.st_ctime_ns) for name, is_ in found.items()}

    stage.deliver()
    before = as_written()
    stage.ours.clear()
    stage.deliver()
    assert as_written() == before
    assert stage.names() == BOTH


def test_a_repeat_puts_back_what_was_deleted(stage: Stage) -> None:
    stage.deliver()
    (stage.box / "scan.pdf.json").unlink()
    stage.deliver()
    assert stage.names() == BOTH


def test_outputs_prove_themselves_to_a_ledger_that_was_lost(stage: Stage) -> None:
    stage.deliver("Read by an old engine.")
    stage.ours.clear()
    stage.deliver("Read by a new engine.")
    assert stage.names() == BOTH
    assert stage.text("scan.pdf.md") == "Read by a new engine.\n"


def test_edited_outputs_prove_nothing_to_a_ledger_that_was_lost(stage: Stage) -> None:
    stage.deliver("Old.")
    edited = stage.text("scan.pdf.json").replace("Old.", "Mine.")
    (stage.box / "scan.pdf.json").write_text(edited)
    stage.ours.clear()
    stage.deliver("New.")
    assert stage.text("scan.pdf.json") == edited
    assert stage.names() == BOTH | {"scan.pdf.2.json", "scan.pdf.2.md"}


def test_outputs_of_other_content_prove_nothing_about_this_one(stage: Stage) -> None:
    stage.deliver("Old.")
    stage.ours.clear()
    stage.drop(b"%PDF another scan").deliver("New.")
    assert stage.text("scan.pdf.md") == "Old.\n"
    assert stage.text("scan.pdf.2.md") == "New.\n"


def test_two_originals_never_share_an_output(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "scan.pdf.md").write_text("notes\n")
    first = Stage(tmp_path).drop()
    first.deliver("First.")
    assert first.text("scan.pdf.2.md") == "First.\n"
    second = Stage(tmp_path, b"scan.pdf.2").drop(b"%PDF the second")
    second.deliver("Second.")
    assert first.text("scan.pdf.2.md") == "First.\n"
    assert first.text("scan.pdf.2.2.md") == "Second.\n"


def test_a_link_at_the_name_is_not_written_through(stage: Stage, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    (stage.box / "scan.pdf.md").symlink_to(victim)
    (stage.box / "scan.pdf.json").symlink_to(tmp_path / "nowhere")
    stage.deliver()
    assert victim.read_text() == "precious\n"
    assert not (tmp_path / "nowhere").exists()
    assert stage.names() == BOTH | {"scan.pdf.2.md", "scan.pdf.2.json"}


def test_a_hard_link_of_the_original_at_the_name_is_left_alone(stage: Stage) -> None:
    (stage.box / "scan.pdf.md").hardlink_to(stage.original)
    stage.deliver()
    assert (stage.box / "scan.pdf.md").samefile(stage.original)
    assert stage.original.read_bytes() == b"%PDF a scan"
    assert stage.text("scan.pdf.2.md") == "What it says.\n"


def test_a_hard_link_to_our_output_keeps_what_it_had(stage: Stage) -> None:
    stage.deliver("Old.")
    (stage.base / "copy.md").hardlink_to(stage.box / "scan.pdf.md")
    stage.deliver("New.")
    assert (stage.base / "copy.md").read_text() == "Old.\n"
    assert stage.text("scan.pdf.md") == "New.\n"


def test_no_pipe_or_socket_at_the_name_is_opened(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(stage.box / "scan.pdf.md")
    monkeypatch.chdir(stage.box)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("scan.pdf.json")
    stage.deliver()
    assert stage.names() == BOTH | {"scan.pdf.2.md", "scan.pdf.2.json"}


def test_a_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, b"sub/scan.pdf").drop()
    elsewhere = tmp_path / "elsewhere"
    (stage.box / "sub").rename(elsewhere)
    (stage.box / "sub").symlink_to(elsewhere)
    outcome = stage.deliver()
    assert isinstance(outcome, Undeliverable)
    assert "symbolic link" in outcome.reason
    assert os.listdir(elsewhere) == ["scan.pdf"]


def test_the_inbox_itself_may_be_a_link(tmp_path: Path) -> None:
    stage = Stage(tmp_path).drop()
    real = tmp_path / "real"
    stage.box.rename(real)
    stage.box.symlink_to(real)
    assert isinstance(stage.deliver(), tuple)
    assert stage.names() == BOTH


def test_outputs_are_of_the_originals_mode_whatever_the_umask(stage: Stage) -> None:
    stage.original.chmod(0o2764)
    stage.note()
    umask = os.umask(0o077)
    try:
        stage.deliver()
    finally:
        os.umask(umask)
    assert {stat.S_IMODE((stage.box / name).stat().st_mode) for name in BOTH} == {0o664}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_outputs_belong_to_those_who_own_the_original(stage: Stage) -> None:
    os.chown(stage.original, 12345, 23456)
    stage.original.chmod(0o600)
    stage.note().deliver()
    for name in BOTH:
        status = (stage.box / name).stat()
        assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 23456, 0o600)


@pytest.mark.parametrize(
    "name",
    [
        b"caf\xe9.pdf",
        b"new\nline.pdf",
        b"-rf.pdf",
        b"$(touch pwned).pdf",
        b"%s{0}*?.pdf",
        b" .pdf",
        b"x.pdf ",
        b"..pdf",
        b"a" * 251 + b".pdf",
        "📄".encode() * 62 + b"12.pdf",
        b"\xff" * 255,
    ],
)
def test_any_name_that_a_file_can_have_will_do(tmp_path: Path, name: bytes) -> None:
    stage = Stage(tmp_path, b"d\xe9p\xf4t/" + name).drop()
    written = stage.deliver()
    assert isinstance(written, tuple)
    assert {os.fsdecode(output.path) for output in written} == {
        str(stage.original.parent / output) for output in stage.names()
    }
    assert len(stage.names()) == 2


def test_names_that_differ_only_in_normal_form_get_outputs_of_their_own(tmp_path: Path) -> None:
    for name in ("\u00e9.pdf", "e\u0301.pdf"):
        Stage(tmp_path, name.encode()).drop(name.encode()).deliver(name)
    assert len(os.listdir(tmp_path / "inbox")) == 6


def test_a_temporary_name_that_a_link_waits_under_is_not_written_through(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing.secrets, "token_hex", lambda _: "0" * 8)
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    (stage.box / os.fsdecode(temporary(placing._LIFE + "0" * 8))).symlink_to(victim)
    assert isinstance(stage.deliver(), Undeliverable)
    assert victim.read_text() == "precious\n"


def test_a_deleted_original_gets_no_outputs(stage: Stage) -> None:
    stage.original.unlink()
    assert isinstance(stage.deliver(), Vanished)
    assert stage.names() == set()


def test_an_original_that_was_deleted_with_its_folder_gets_no_outputs(tmp_path: Path) -> None:
    stage = Stage(tmp_path, b"user/scan.pdf").drop()
    stage.original.unlink()
    stage.original.parent.rmdir()
    assert isinstance(stage.deliver(), Vanished)
    assert os.listdir(stage.box) == []


@pytest.mark.parametrize("how", ["written in place", "renamed over", "now a link"])
def test_outputs_of_old_content_are_not_published_under_the_name_of_new(stage: Stage, how: str) -> None:
    other = stage.base / "other"
    other.write_bytes(b"%PDF a scum")  # of the same size
    if how == "renamed over":
        os.utime(other, ns=(stage.seen.mtime_ns, stage.seen.mtime_ns))
        other.rename(stage.original)
    elif how == "now a link":
        stage.original.unlink()
        stage.original.symlink_to(other)
    else:
        stage.original.write_bytes(b"%PDF another scan")
    outcome = stage.deliver()
    assert isinstance(outcome, Undeliverable)
    assert "changed after it was read" in outcome.reason
    assert stage.names() == set()


def test_a_chmod_is_no_change(stage: Stage) -> None:
    stage.original.chmod(0o640)
    assert isinstance(stage.deliver(), tuple)


def test_inodes_that_are_made_up_prove_nothing(stage: Stage) -> None:
    """A share's are not in the ledger: see `Mount.keeps_inodes`."""
    stage.seen = replace(stage.seen, inode=0)
    assert isinstance(stage.deliver(), tuple)
    stage.original.write_bytes(b"%PDF another scan")
    assert isinstance(stage.deliver("New."), Undeliverable)


def test_an_inbox_that_is_away_is_told_and_nothing_is_made(stage: Stage) -> None:
    stage.box.rename(stage.base / "gone")
    outcome = stage.deliver()
    assert isinstance(outcome, Undeliverable)
    assert str(stage.box) in outcome.reason
    assert not stage.box.exists()
