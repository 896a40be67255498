"""Files that are moved, replaced, cut or dropped again while a real daemon has them: what is there comes out."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from tests.corpus import FOLDER as SAMPLES
from tests.process.daemon import Daemon, litter, output, running
from tests.process.lives import live
from tests.process.test_survival import pdf

pytestmark = pytest.mark.slow


def made(path: Path, pages: int, words: str = "") -> Path:
    """A PDF whose pages name it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pdf(os.fsencode(path), *(f"{words or path.name} page {number}" for number in range(1, pages + 1)))
    return path


def versions(daemon: Daemon, name: str) -> list[tuple[str, str]]:
    """State and reason of each version of a file, oldest first."""
    return daemon.sql("SELECT state, reason FROM files WHERE name = ? ORDER BY id", (name.encode(),))


def is_output_of(original: Path, content: bytes) -> bool:
    """Whether there are outputs beside an original, of this content."""
    try:
        return bool(output(original)["sha256"] == hashlib.sha256(content).hexdigest())
    except FileNotFoundError:
        return False


def drain(daemon: Daemon) -> None:
    """A life until all is done, which costs less to begin than a process from scratch."""
    command = ["run", "--config", str(daemon.config), "--until-drained"]
    assert live(command, daemon.root / "lives.log", {}) == 0, daemon.log()


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - {".inboxd-inbox"}


def with_outputs(*names: str) -> set[str]:
    return {name + end for name in names for end in ("", ".md", ".json")}


def test_what_is_moved_replaced_cut_or_deleted_while_it_is_read(tmp_path: Path) -> None:
    with running(tmp_path, allow=0, inbox="max_settle = 1.0", more="[render]\nworkers = 1") as daemon:
        inbox = daemon.inbox
        names = ("moved.pdf", "replaced.pdf", "cut.pdf", "overwritten.pdf", "deleted.pdf")
        for name in names:
            made(inbox / name, 150)
        daemon.wait_for(**{name.replace(".", "__"): "reading" for name in names})
        daemon.allow(140)  # fewer than any file has, and enough for each to have its turn
        daemon.wait(lambda: daemon.sql("SELECT count(DISTINCT file) FROM pages WHERE state = 'ok'") == [(len(names),)])
        assert set(daemon.states().values()) == {"reading"}
        moved = (inbox / "moved.pdf").read_bytes()
        (inbox / "sub").mkdir()
        (inbox / "moved.pdf").rename(inbox / "sub" / "elsewhere.pdf")
        made(tmp_path / "new.pdf", 2).rename(inbox / "replaced.pdf")
        os.truncate(inbox / "cut.pdf", 20_000)
        with (inbox / "overwritten.pdf").open("r+b") as file:
            file.write(made(tmp_path / "other.pdf", 3).read_bytes())
            file.truncate()
        (inbox / "deleted.pdf").unlink()
        daemon.allow(None)
        daemon.wait_for(
            elsewhere__pdf="done", replaced__pdf="done", cut__pdf="quarantined", overwritten__pdf="done",
            deleted__pdf="vanished",
        )  # fmt: skip
        daemon.wait(lambda: is_output_of(inbox / "overwritten.pdf", (tmp_path / "other.pdf").read_bytes()))
        assert is_output_of(inbox / "replaced.pdf", (inbox / "replaced.pdf").read_bytes())
        assert is_output_of(inbox / "sub" / "elsewhere.pdf", moved)
        assert tree(inbox) == {"cut.pdf"} | with_outputs("sub/elsewhere.pdf", "replaced.pdf", "overwritten.pdf")
        assert versions(daemon, "cut.pdf")[-1] == ("quarantined", "incomplete: the PDF has no end (%%EOF)")
        assert versions(daemon, "deleted.pdf")[-1] == ("vanished", "deleted before it was done")
        assert versions(daemon, "moved.pdf") == []
        assert not litter(inbox)


def test_a_scan_that_is_written_anew_with_each_page(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        scan = daemon.inbox / "scan.pdf"
        for pages in range(1, 4):
            data = made(tmp_path / "next.pdf", pages, "scan").read_bytes()
            with scan.open("r+b" if scan.exists() else "wb") as file:
                file.write(data)
                file.truncate()
            daemon.wait(lambda data=data: is_output_of(scan, data))
        daemon.wait_for(scan__pdf="done")
        assert tree(daemon.inbox) == with_outputs("scan.pdf")
        assert len(output(scan)["pages"]) == 3
        assert len(versions(daemon, "scan.pdf")) == 3


def test_the_counter_of_a_scanner_begins_anew(tmp_path: Path) -> None:
    """The same name with content A, then B, then A again: the outputs are always those of what is there."""
    with running(tmp_path) as daemon:
        scan = daemon.inbox / "SCAN0001.pdf"
        first, second = (made(tmp_path / f"{words}.pdf", 2).read_bytes() for words in "AB")
        for content in (first, second, first):
            scan.unlink(missing_ok=True)
            (tmp_path / "next").write_bytes(content)
            (tmp_path / "next").rename(scan)
            daemon.wait(lambda content=content: is_output_of(scan, content))
        daemon.wait(lambda: len(versions(daemon, "SCAN0001.pdf")) == 3)
        assert [state for state, _ in versions(daemon, "SCAN0001.pdf")] == ["done", "done", "duplicate"]
        assert tree(daemon.inbox) == with_outputs("SCAN0001.pdf")
        assert daemon.sql("SELECT sum(attempts), count(*) FROM pages") == [(4, 4)], "what was read is not read again"


def test_one_stem_in_several_types_and_a_person_s_own_notes(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    originals = {
        "scan.pdf": "nl_notice_digital.pdf", "scan.jpg": "de_notice_degraded.jpg",
        "scan.JPG": "it_notice_exif6.jpg", "scan.tiff": "multi_de-fr-sv_g4.tif", "scan": "da_report.png",
    }  # fmt: skip
    for name, sample in originals.items():
        shutil.copy(SAMPLES / sample, daemon.inbox / name)
    notes = {"scan.md": "typed by a person", "scan.jpg.md": "typed by a person too", "scan.txt": "and this"}
    for name, words in notes.items():
        (daemon.inbox / name).write_text(words)
    drain(daemon)
    assert {name: (daemon.inbox / name).read_text() for name in notes} == notes
    expected = with_outputs(*originals) | set(notes) | {"scan.jpg.2.md", "scan.2.md"}
    assert tree(daemon.inbox) == expected
    for name, sample in originals.items():
        assert is_output_of(daemon.inbox / name, (SAMPLES / sample).read_bytes())
    assert {state for name, state in daemon.states().items() if name in originals} == {"done"}


def test_a_tree_that_is_moved_in_and_a_file_that_follows_it(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.wait(lambda: daemon.sql("SELECT state FROM inboxes") == [("watching",)])
        names = [f"{('x', 'y/z', 'y')[number % 3]}/{number}.pdf" for number in range(30)]
        for name in names:
            made(tmp_path / "b" / name, 1)
        (tmp_path / "b").rename(daemon.inbox / "b")
        daemon.wait(lambda: [*daemon.states().values()].count("done") == 30)
        made(tmp_path / "late.pdf", 1).rename(daemon.inbox / "b" / "y" / "late.pdf")
        daemon.wait_for(late__pdf="done")
        assert tree(daemon.inbox) == with_outputs(*(f"b/{name}" for name in names), "b/y/late.pdf")


def test_copies_and_our_own_outputs_are_not_read_however_often_it_starts(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    inbox = daemon.inbox
    made(inbox / "d1.pdf", 2)
    (inbox / "sub").mkdir()
    shutil.copy(inbox / "d1.pdf", inbox / "sub" / "d2.pdf")
    drain(daemon)
    (inbox / "d1.pdf").rename(tmp_path / "again")
    shutil.copy(tmp_path / "again", inbox / "d1.pdf")
    for number, name in enumerate(("d1.pdf.md", "d1.pdf.json")):
        shutil.copy(inbox / name, inbox / f"copy {number}.pdf")
        shutil.copy(inbox / name, inbox / "sub" / name)
    for _ in range(3):
        drain(daemon)
    states = daemon.states()
    assert {states["d1.pdf"], states["d2.pdf"]} == {"done", "duplicate"}
    assert {name: state for name, state in states.items() if name[0] == "c"} == {
        "copy 0.pdf": "skipped",
        "copy 1.pdf": "skipped",
    }
    assert daemon.sql("SELECT count(*), sum(attempts) FROM pages") == [(2, 2)]
    assert tree(inbox) == with_outputs("d1.pdf", "sub/d2.pdf") | {
        "copy 0.pdf", "copy 1.pdf", "sub/d1.pdf.md", "sub/d1.pdf.json"
    }  # fmt: skip
    assert not [line for line in daemon.log().splitlines() if "level=error" in line]


def test_an_original_keeps_all_it_had_though_others_read_it(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    original = made(daemon.inbox / "a.pdf", 2)
    original.chmod(0o640)
    os.utime(original, ns=(10**18, 10**18 + 123))
    try:
        os.setxattr(original, "user.origin", b"the scanner downstairs")
    except OSError as error:
        pytest.skip(f"no extended attributes here: {error}")
    os.link(original, daemon.inbox / "b.pdf")
    before, content = original.stat(), original.read_bytes()
    with original.open("rb"):
        drain(daemon)
    after = original.stat()
    for fact in ("st_ino", "st_mode", "st_uid", "st_gid", "st_mtime_ns", "st_ctime_ns", "st_nlink"):
        assert getattr(after, fact) == getattr(before, fact), fact
    assert original.read_bytes() == content
    assert os.getxattr(original, "user.origin") == b"the scanner downstairs"
    assert sorted(daemon.states().values()) == ["done", "duplicate"]
    assert tree(daemon.inbox) == with_outputs("a.pdf", "b.pdf")


def test_two_daemons_whose_outputs_are_each_other_s_inbox(tmp_path: Path) -> None:
    one, other = (Daemon(tmp_path / name, inbox="") for name in ("one", "other"))
    for daemon, its_outputs in ((one, other.inbox), (other, one.inbox)):
        daemon.config.write_text(daemon.config.read_text() + f'output_dir = "{its_outputs}"\n')
    made(one.inbox / "scan.pdf", 1)
    for _ in range(2):
        for daemon in (one, other):
            drain(daemon)
    assert tree(one.inbox) == {"scan.pdf"}
    assert tree(other.inbox) == {"scan.pdf.md", "scan.pdf.json"}
