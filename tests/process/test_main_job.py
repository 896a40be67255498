"""The main job through a real daemon process: drop, read, deliver; duplicates, versions, refusals, late folders."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.process.daemon import INBOXD, PATIENCE_S, Daemon, output, running
from tests.process.test_survival import pdf


def test_a_dropped_file_comes_back_as_text_beside_it(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        pdf(os.fsencode(daemon.inbox / "scan.pdf"), "one", "two")
        daemon.wait_for(scan__pdf="done")
        assert (daemon.inbox / "scan.pdf.md").is_file()
        assert [page["number"] for page in output(daemon.inbox / "scan.pdf")["pages"]] == [1, 2]
        assert daemon.state.stat().st_mode & 0o007 == 0  # the ledger has the text of every page


def test_until_drained_ends_with_zero_though_a_file_is_quarantined(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    pdf(os.fsencode(daemon.inbox / "good.pdf"), "good")
    (daemon.inbox / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing of a document\nstartxref\n0\n%%EOF\n")
    (daemon.inbox / "notes.docx").write_bytes(b"PK\x03\x04" + bytes(range(256)) * 8)
    assert daemon.drain() == 0, daemon.log()
    assert daemon.states() == {"good.pdf": "done", "broken.pdf": "quarantined", "notes.docx": "skipped"}
    reasons = dict(daemon.sql("SELECT name, reason FROM v_files"))
    assert reasons["broken.pdf"] and reasons["notes.docx"]
    assert not (daemon.inbox / "broken.pdf.md").exists()


def test_until_drained_says_that_it_waits_for_whoever_paused(tmp_path: Path) -> None:
    """A pause outlasts lives: without a word a batch job would wait for ever for no reason that can be seen."""
    daemon = Daemon(tmp_path)
    assert daemon.drain() == 0, daemon.log()
    subprocess.run([*INBOXD, "pause", "--config", daemon.config], check=True)
    pdf(os.fsencode(daemon.inbox / "scan.pdf"), "scan")
    with daemon.start("--until-drained") as life:
        try:
            daemon.wait(lambda: "inboxd resume" in daemon.log())
            subprocess.run([*INBOXD, "resume", "--config", daemon.config], check=True)
            assert life.wait(PATIENCE_S) == 0, daemon.log()
        finally:
            life.kill()
    assert daemon.states() == {"scan.pdf": "done"}


def test_a_copy_is_not_read_again_and_gets_its_own_outputs(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        pdf(os.fsencode(daemon.inbox / "a.pdf"), "same")
        daemon.wait_for(a__pdf="done")
        shutil.copy(daemon.inbox / "a.pdf", daemon.inbox / "b.pdf")
        daemon.wait_for(b__pdf="duplicate")
        daemon.wait((daemon.inbox / "b.pdf.json").exists)
        assert daemon.sql("SELECT count(*) FROM pages") == [(1,)]
        assert output(daemon.inbox / "b.pdf")["pages"][0]["text"] == output(daemon.inbox / "a.pdf")["pages"][0]["text"]


def test_new_content_under_an_old_name_is_a_new_version(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        pdf(os.fsencode(daemon.inbox / "a.pdf"), "first")
        daemon.wait_for(a__pdf="done")
        first = output(daemon.inbox / "a.pdf")["sha256"]
        pdf(os.fsencode(daemon.inbox / "a.pdf"), "second", "and more")
        daemon.wait(lambda: output(daemon.inbox / "a.pdf")["sha256"] != first)
        assert len(output(daemon.inbox / "a.pdf")["pages"]) == 2
        assert sorted(os.listdir(daemon.inbox)) == [".inboxd-inbox", "a.pdf", "a.pdf.json", "a.pdf.md"]


def test_a_second_daemon_says_who_has_the_ledger(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.wait(lambda: bool(daemon.sql("SELECT 1 FROM runs")))
        assert daemon.process is not None
        command = [*INBOXD, "run", "--config", str(daemon.config)]
        second = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert second.returncode == 78
        assert str(daemon.process.pid) in second.stderr
