"""Files on their way in, as people and scanners write them: the recipes of watch folders, on real folders."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import socket
import stat
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.corpus import FOLDER as SAMPLES
from tests.rooms.intake_stage import Stage

from inboxd.config import Intake
from inboxd.core.lifecycle import FileState
from inboxd.ledger import arrivals
from inboxd.model import Gone
from inboxd.rooms import looking
from inboxd.rooms.spool import Spool

PDF = (SAMPLES / "nl_notice_digital.pdf").read_bytes()
JPEG = (SAMPLES / "de_notice_degraded.jpg").read_bytes()
PNG = (SAMPLES / "da_report.png").read_bytes()


def distinct(number: int) -> bytes:
    """A whole PDF that no other number gives."""
    return PDF + b"%% %d\n" % number


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


Play = Callable[[Stage], Coroutine[Any, Any, None]]


def on(stage: Stage, play: Play) -> None:
    """Run one life of both rooms with the play in it."""

    async def run() -> None:
        async with stage.open():
            await play(stage)

    asyncio.run(run())


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_dropped_file_is_copied_once_and_ready(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.becomes("a.pdf", "ready")
        await stage.settled()
        (row,) = stage.files()
        assert (row.kind, row.size, row.sha256) == ("pdf", len(PDF), sha256(PDF))
        assert stage.copies() == {sha256(PDF): PDF}
        assert stage.wakes == 1
        assert (stage.inbox / "a.pdf").read_bytes() == PDF

    on(stage, play)


def test_a_slow_scan_is_taken_when_its_last_page_is_there(stage: Stage) -> None:
    stage.settings["max_settle"] = 600.0

    async def play(stage: Stage) -> None:
        with (stage.inbox / "a.pdf").open("wb", buffering=0) as scan:
            scan.write(PDF[: len(PDF) * 6 // 10])
            await stage.until(lambda: "no end" in stage.reason("a.pdf"), "a.pdf to lack its end")
            assert stage.state("a.pdf") == "settling"
            scan.write(PDF[len(PDF) * 6 // 10 :])
        await stage.becomes("a.pdf", "ready")
        assert len(stage.files(all_versions=True)) == 1
        assert set(stage.copies()) == {sha256(PDF)}

    on(stage, play)


def test_an_upload_that_sets_its_size_first_is_not_taken_as_zeros(stage: Stage) -> None:
    stage.settings["max_settle"] = 600.0

    async def play(stage: Stage) -> None:
        path = stage.inbox / "a.jpg"
        with path.open("wb", buffering=0) as upload:
            upload.truncate(len(JPEG))
            os.utime(path, (1e9, 1e9))
            await stage.until(lambda: "zeros" in stage.reason("a.jpg"), "a.jpg to be zeros")
            for part in range(4):
                begin, end = part * len(JPEG) // 4, (part + 1) * len(JPEG) // 4
                upload.seek(begin)
                upload.write(JPEG[begin:end])
                os.utime(path, (1e9, 1e9))
                if part == 1:
                    await stage.until(lambda: "incomplete" in stage.reason("a.jpg"), "a.jpg to be incomplete")
        os.utime(path, (1e9, 1e9))
        await stage.becomes("a.jpg", "ready")
        assert len(stage.files(all_versions=True)) == 1
        assert set(stage.copies()) == {sha256(JPEG)}

    on(stage, play)


def test_a_placeholder_waits_and_one_that_stays_empty_is_set_aside(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        (stage.inbox / "a.pdf").touch()
        (stage.inbox / "b.pdf").touch()
        await stage.until(lambda: "empty" in stage.reason("a.pdf"), "a.pdf to be empty")
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.becomes("a.pdf", "ready")
        await stage.becomes("b.pdf", "quarantined")
        assert stage.reason("b.pdf") == "incomplete: it is empty (0 bytes)"
        (stage.inbox / "b.pdf").write_bytes(distinct(1))
        await stage.becomes("b.pdf", "ready")

    on(stage, play)


def test_a_copy_that_broke_off_is_taken_anew_when_it_is_completed(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        (stage.inbox / "a.png").write_bytes(PNG[:50_000])
        await stage.becomes("a.png", "quarantined")
        assert stage.reason("a.png") == "incomplete: the PNG has no end (IEND)"
        with (stage.inbox / "a.png").open("ab") as file:
            file.write(PNG[50_000:])
        await stage.becomes("a.png", "ready")
        assert [row.state.value for row in stage.files(all_versions=True)] == ["ready", "quarantined"]

    on(stage, play)


def test_junk_is_left_alone_and_a_rename_from_a_temporary_name_is_an_arrival(stage: Stage) -> None:
    junk = [
        "x.pdf.part", "x.crdownload", "x.pdf.filepart", "~$x.docx", ".~lock.x.pdf#", "._x.pdf", ".x.pdf.Ab12Cd",
        ".syncthing.x.pdf.tmp", "x.pd~", ".nfs0001", ".fuse_hidden01", ".smbdeleteAAA1", ".__smbfile_silly1",
        "Thumbs.db", "desktop.ini", ".pdf", "..pdf",
    ]  # fmt: skip

    async def play(stage: Stage) -> None:
        for name in junk:
            (stage.inbox / name).write_bytes(PDF)
        for folder in ("@eaDir", "#recycle", ".AppleDouble", "System Volume Information"):
            (stage.inbox / folder).mkdir()
            (stage.inbox / folder / "x.pdf").write_bytes(PDF)
        await stage.settled()
        assert stage.rows() == {}
        (stage.inbox / "x.pdf.part").rename(stage.inbox / "x.pdf")
        await stage.becomes("x.pdf", "ready")
        assert list(stage.rows()) == ["x.pdf"]

    on(stage, play)


def test_old_and_future_times_don_t_matter(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        for number, at in enumerate((0, -3e8, 978307200, 4e9, 4294967400, 1e10)):
            made = stage.home / f"g{number}.pdf"
            made.write_bytes(distinct(number))
            os.utime(made, (at, at))
            made.rename(stage.inbox / made.name)
        for number in range(6):
            await stage.becomes(f"g{number}.pdf", "ready")

    on(stage, play)


def test_a_folder_that_is_moved_in_brings_all_its_files(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        for number in range(30):
            folder = stage.home / "b" / ("x", "y/z", "y")[number % 3]
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.pdf").write_bytes(distinct(number))
        (stage.home / "b").rename(stage.inbox / "b")
        await stage.until(lambda: [*stage.rows().values()].count(("ready", "")) == 30, "30 files")
        (stage.home / "late.pdf").write_bytes(distinct(30))
        (stage.home / "late.pdf").rename(stage.inbox / "b" / "y" / "late.pdf")
        await stage.becomes("late.pdf", "ready")
        assert {row.path for row in stage.files()} == {
            *(str(path) for path in stage.inbox.glob("b/**/*.pdf")),
        }

    on(stage, play)


def test_nested_folders_made_at_once_with_a_file_in_them(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        for number in range(40):
            folder = stage.inbox / f"{number}" / "a" / "b"
            folder.mkdir(parents=True)
            (folder / f"{number}.pdf").write_bytes(distinct(number))
        await stage.until(lambda: [*stage.rows().values()].count(("ready", "")) == 40, "40 files")

    on(stage, play)


def test_what_is_no_document_is_skipped_and_does_not_stop_the_line(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        (stage.inbox / "text.pdf").write_text("this is no PDF")
        (stage.inbox / "photo.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"x" * 500)
        (stage.inbox / "cut.jpg").write_bytes(JPEG[:60_000])
        (stage.inbox / "page.pdf").write_bytes(PNG)
        (stage.inbox / "good.pdf").write_bytes(PDF)
        await stage.becomes("good.pdf", "ready")
        await stage.becomes("page.pdf", "ready")
        await stage.becomes("cut.jpg", "quarantined")
        rows = stage.rows()
        assert rows["text.pdf"] == ("skipped", "not a document: text")
        assert rows["photo.heic"] == ("skipped", "HEIC is not supported: convert to JPEG")
        assert rows["cut.jpg"][1] == "incomplete: the JPEG has no end (EOI)"

    on(stage, play)


NAMES = [
    b"caf\xe9.pdf",
    "é.pdf".encode(),
    "e\u0301.pdf".encode(),
    b"a\nb.pdf",
    b"a\tb\r\x1b[31m.pdf",
    b"-rf.pdf",
    b"$(id).pdf",
    b"name .pdf",
    b" .pdf",
    b"IMG 100%.PDF",
    b"*.pdf",
    b"\\.pdf",
    b"x.pdf ",
    b"no extension",
    b"a" * 251 + b".pdf",
    "📄".encode() * 62 + b"x1.pdf",
    "📄".encode() * 62 + b"x2.pdf",
]


def test_odd_names_are_ordinary(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        inbox = os.fsencode(stage.inbox)
        for number, name in enumerate(NAMES):
            Path(os.fsdecode(inbox + b"/" + name)).write_bytes(distinct(number))
        await stage.until(lambda: [row.state for row in stage.files()] == ["ready"] * len(NAMES), "all of them")
        await stage.settled()
        assert len(stage.files(all_versions=True)) == len(NAMES)
        assert set(stage.reader.known(stage.ids[0], b"")) == set(NAMES)
        assert all(row.path.isprintable() for row in stage.files())

    on(stage, play)


def test_what_is_no_file_is_never_opened_and_told_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(stage.inbox / "fifo.pdf")
    (stage.inbox / "link.pdf").symlink_to("/etc/passwd")
    (stage.inbox / "nowhere.pdf").symlink_to("nowhere")
    (stage.inbox / "loop.pdf").symlink_to("loop.pdf")
    (stage.inbox / "round").symlink_to(".")
    (stage.inbox / "folder.pdf").mkdir()
    (stage.inbox / "folder.pdf" / "in.pdf").write_bytes(PDF)
    with socket.socket(socket.AF_UNIX) as server, monkeypatch.context() as patch:
        patch.chdir(stage.inbox)  # the name of a socket must be short
        server.bind("s.pdf")
    expected = {
        "fifo.pdf": ("skipped", "a named pipe, not a file"),
        "link.pdf": ("skipped", "a symbolic link, not a file"),
        "nowhere.pdf": ("skipped", "a symbolic link, not a file"),
        "loop.pdf": ("skipped", "a symbolic link, not a file"),
        "round": ("skipped", "a symbolic link, not a file"),
        "s.pdf": ("skipped", "a socket, not a file"),
        "in.pdf": ("ready", ""),
    }
    if os.geteuid() == 0:
        os.mknod(stage.inbox / "zero.pdf", stat.S_IFCHR | 0o600, os.makedev(1, 5))
        expected["zero.pdf"] = ("skipped", "a device, not a file")

    async def play(stage: Stage) -> None:
        await stage.becomes("in.pdf", "ready")
        await stage.settled()
        await stage.settled()
        assert stage.rows() == expected
        assert len(stage.files(all_versions=True)) == len(expected)
        assert set(stage.copies()) == {sha256(PDF)}

    on(stage, play)


def test_a_link_that_is_swapped_in_is_never_followed(stage: Stage) -> None:
    secret = stage.home / "secret.pdf"
    secret.write_bytes(distinct(99))
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            (stage.home / "good").write_bytes(PDF)
            (stage.home / "good").rename(stage.inbox / "t.pdf")
            (stage.home / "link").symlink_to(secret)
            (stage.home / "link").rename(stage.inbox / "t.pdf")
            (stage.inbox / "sub").mkdir()
            (stage.inbox / "sub" / "secret.pdf").write_bytes(PDF)
            shutil.rmtree(stage.inbox / "sub")
            (stage.inbox / "sub").symlink_to(stage.home)
            (stage.inbox / "sub").unlink()

    async def play(stage: Stage) -> None:
        thread = threading.Thread(target=swap)
        thread.start()
        try:
            for _ in range(15):
                await stage.scanned()
        finally:
            done.set()
            thread.join()
        await stage.settled()
        assert sha256(secret.read_bytes()) not in stage.copies()
        assert {row.sha256 for row in stage.files(all_versions=True)} <= {None, sha256(PDF)}

    stage.settings["settle"] = 0.01
    on(stage, play)


def test_rename_delete_and_replace_while_settling_and_while_ready(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        for number, name in enumerate("abc"):
            (stage.inbox / f"{name}.pdf").write_bytes(distinct(number))
        for name in "abc":
            await stage.becomes(f"{name}.pdf", "ready")
        first = {row.name: row.id for row in stage.files()}
        (stage.inbox / "a.pdf").rename(stage.inbox / "a2.pdf")
        (stage.inbox / "b.pdf").unlink()
        (stage.inbox / "c.pdf").write_bytes(distinct(7))
        await stage.becomes("a2.pdf", "ready")
        await stage.becomes("b.pdf", "vanished")
        await stage.until(lambda: {r.name: r.sha256 for r in stage.files()}.get("c.pdf") == sha256(distinct(7)), "c")
        await stage.settled()
        rows = stage.rows()
        assert rows["a2.pdf"] == ("ready", "") and "a.pdf" not in rows
        assert {row.name: row.id for row in stage.files()}["a2.pdf"] == first["a.pdf"]
        old = [row for row in stage.files(all_versions=True) if row.id == first["c.pdf"]]
        assert [(row.state.value, row.reason) for row in old] == [("vanished", "replaced by newer content")]

    on(stage, play)


def test_rename_delete_and_replace_while_settling(stage: Stage) -> None:
    stage.settings["max_settle"] = 600.0

    async def play(stage: Stage) -> None:
        for number, name in enumerate("abc"):
            (stage.inbox / f"{name}.pdf").write_bytes(distinct(number)[:-100])
        for name in "abc":
            await stage.until(lambda name=name: "no end" in stage.reason(f"{name}.pdf"), name)
        first = {row.name: row.id for row in stage.files()}
        (stage.inbox / "sub").mkdir()
        (stage.inbox / "a.pdf").rename(stage.inbox / "sub" / "a2.pdf")
        (stage.inbox / "b.pdf").unlink()
        (stage.home / "c.pdf").write_bytes(distinct(7))
        (stage.home / "c.pdf").rename(stage.inbox / "c.pdf")
        await stage.until(lambda: stage.state("a2.pdf") == "settling", "a2.pdf")
        with (stage.inbox / "sub" / "a2.pdf").open("ab") as file:
            file.write(distinct(0)[-100:])
        await stage.becomes("a2.pdf", "ready")
        await stage.becomes("c.pdf", "ready")
        await stage.becomes("b.pdf", "vanished")
        await stage.settled()
        files = {row.name: row for row in stage.files()}
        assert set(files) == {"a2.pdf", "b.pdf", "c.pdf"}
        assert files["a2.pdf"].id == first["a.pdf"]
        assert files["a2.pdf"].sha256 == sha256(distinct(0))
        assert files["c.pdf"].sha256 == sha256(distinct(7))

    on(stage, play)


def test_files_that_move_with_their_folder_or_to_another_stay_what_they_are(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        for folder in ("a", "a/deep", "z"):
            (stage.inbox / folder).mkdir()
            (stage.inbox / folder / f"{folder[-1]}.pdf").write_bytes(distinct(ord(folder[-1])))
        await stage.until(lambda: [*stage.rows().values()].count(("ready", "")) == 3, "3 files")
        await stage.settled()  # a scan under way may see a file at neither place
        first = {row.name: row.id for row in stage.files()}
        (stage.inbox / "a").rename(stage.inbox / "b")
        await stage.until(lambda: all("/a/" not in row.path for row in stage.files()), "the folder's new name")
        await stage.settled()
        (stage.inbox / "z" / "z.pdf").rename(stage.inbox / "b" / "deep" / "y.pdf")
        await stage.until(lambda: "y.pdf" in stage.rows(), "the file's new name")
        await stage.settled()
        assert {row.path.removeprefix(f"{stage.inbox}/"): row.id for row in stage.files(all_versions=True)} == {
            "b/a.pdf": first["a.pdf"],
            "b/deep/p.pdf": first["p.pdf"],
            "b/deep/y.pdf": first["z.pdf"],
        }
        assert all(event.event not in ("vanished", "settling") for event in stage.reader.events(limit=100))
        assert {row.state.value for row in stage.files()} == {"ready"}

    on(stage, play)


def test_a_folder_that_is_deleted_takes_its_waiting_files_along(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        for number in range(3):
            folder = stage.inbox / "u1" / ("deep" if number else "")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.pdf").write_bytes(distinct(number))
        await stage.until(lambda: [*stage.rows().values()].count(("ready", "")) == 3, "3 files")
        shutil.rmtree(stage.inbox / "u1")
        await stage.until(lambda: {state for state, _ in stage.rows().values()} == {"vanished"}, "them to vanish")
        (stage.inbox / "u1").mkdir()
        (stage.inbox / "u1" / "again.pdf").write_bytes(distinct(5))
        await stage.becomes("again.pdf", "ready")

    on(stage, play)


def test_the_same_content_is_a_duplicate_and_needs_no_second_copy(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        (stage.inbox / "d1.pdf").write_bytes(PDF)
        await stage.becomes("d1.pdf", "ready")
        (stage.inbox / "sub").mkdir()
        (stage.inbox / "sub" / "d2.pdf").write_bytes(PDF)
        os.link(stage.inbox / "d1.pdf", stage.inbox / "d3.pdf")
        await stage.becomes("d2.pdf", "duplicate")
        await stage.until(lambda: stage.state("d3.pdf") in ("ready", "duplicate"), "d3.pdf")
        await stage.settled()
        # The new link changed the time of the first one: which of the two is read is chance.
        assert sorted(state for state, _ in stage.rows().values()) == ["duplicate", "duplicate", "ready"]
        assert stage.copies() == {sha256(PDF): PDF}

    on(stage, play)


def test_a_copy_of_a_file_that_vanishes_takes_its_place(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        (stage.inbox / "d1.pdf").write_bytes(PDF)
        await stage.becomes("d1.pdf", "ready")
        (stage.inbox / "d2.pdf").write_bytes(PDF)
        await stage.becomes("d2.pdf", "duplicate")
        (stage.inbox / "d1.pdf").unlink()
        await stage.becomes("d2.pdf", "ready")

    on(stage, play)


def test_a_touched_file_is_noticed_and_stays_what_it_was(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        (stage.inbox / "a.txt").write_text("no document")
        (stage.inbox / "b.pdf").write_bytes(PDF)
        await stage.becomes("b.pdf", "ready")
        await stage.becomes("a.txt", "skipped")
        for name in ("a.txt", "b.pdf"):
            os.utime(stage.inbox / name, (1e9, 1e9))
        await stage.settled()
        await stage.becomes("b.pdf", "ready")
        await stage.becomes("a.txt", "skipped")
        assert set(stage.rows()) == {"a.txt", "b.pdf"}

    on(stage, play)


def test_same_name_size_and_time_but_other_content_is_noticed(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        (stage.inbox / "a.pdf").write_bytes(distinct(1))
        os.utime(stage.inbox / "a.pdf", (1e9, 1e9))
        await stage.becomes("a.pdf", "ready")
        (stage.home / "other").write_bytes(distinct(2))
        os.utime(stage.home / "other", (1e9, 1e9))
        (stage.home / "other").rename(stage.inbox / "a.pdf")
        await stage.until(lambda: sha256(distinct(2)) in stage.copies(), "the other content")

    on(stage, play)


def test_everything_that_came_while_nobody_watched_is_found_once(stage: Stage) -> None:
    for number in range(100):
        folder = stage.inbox / str(number % 7)
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.pdf").write_bytes(distinct(number))

    async def none(stage: Stage) -> None:
        (stage.inbox / "during.pdf").write_bytes(distinct(1000))

    on(stage, none)  # this life ends in the middle
    for number in range(100, 150):
        (stage.inbox / f"{number}.pdf").write_bytes(distinct(number))

    async def play(stage: Stage) -> None:
        for number in range(150, 200):
            (stage.inbox / f"{number}.pdf").write_bytes(distinct(number))
        await stage.until(lambda: [*stage.rows().values()].count(("ready", "")) == 201, "all")
        await stage.settled()
        assert len(stage.files(all_versions=True)) == 201

    on(stage, play)


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/usr/bin/setpriv").exists(), reason="root may read anything")
def test_a_file_without_permission_waits_for_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stage.inbox / "a.pdf"
    if os.geteuid() == 0:
        real = os.open

        def refuse(name: Any, flags: int, *rest: Any, **options: Any) -> int:
            if name == b"a.pdf" and not os.stat(name, dir_fd=options["dir_fd"]).st_mode & 0o400:
                raise PermissionError(13, "Permission denied")
            return real(name, flags, *rest, **options)

        monkeypatch.setattr(os, "open", refuse)

    async def play(stage: Stage) -> None:
        path.write_bytes(PDF)
        path.chmod(0o000)
        await stage.until(lambda: "no permission" in stage.reason("a.pdf"), "it to be told")
        us = f"{os.geteuid()}:{os.getegid()}"
        assert stage.reason("a.pdf") == f"no permission to read it (owner {us}, mode 0000; inboxd is {us})"
        await stage.becomes("a.pdf", "quarantined")
        path.chmod(0o644)
        await stage.becomes("a.pdf", "ready")

    on(stage, play)


def test_a_busy_file_waits(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    real, refusals = os.open, iter(range(3))

    def busy(name: Any, *rest: Any, **options: Any) -> int:
        if name == b"a.pdf" and next(refusals, None) is not None:
            raise OSError(16, "Device or resource busy")
        return real(name, *rest, **options)

    monkeypatch.setattr(os, "open", busy)
    stage.settings["max_settle"] = 60.0

    async def play(stage: Stage) -> None:
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.until(lambda: stage.reason("a.pdf") == "busy: Device or resource busy", "it to be told")
        await stage.becomes("a.pdf", "ready")

    on(stage, play)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(stage: Stage) -> None:
    stage.intake_settings = Intake(min_free_bytes=0, max_file_bytes=1_000_000)

    async def play(stage: Stage) -> None:
        with (stage.inbox / "big.pdf").open("wb") as file:
            file.truncate(1024**4)
        await stage.becomes("big.pdf", "quarantined")
        assert stage.reason("big.pdf") == (
            "too large: 1,099,511,627,776 bytes, 1,099,510,627,776 more than intake.max_file_bytes allows"
        )

    on(stage, play)


def test_a_sparse_file_that_is_whole_is_taken_in_the_end(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        with (stage.inbox / "a.pdf").open("wb") as file:
            file.write(PDF[:-60])
            file.seek(2_000_000)
            file.write(PDF[-60:])
        await stage.until(lambda: "holes" in stage.reason("a.pdf"), "holes to be seen")
        await stage.becomes("a.pdf", "ready")

    on(stage, play)


def test_a_file_that_grows_after_it_was_taken_slows_its_inbox_down(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        path = stage.inbox / "a.pdf"
        path.write_bytes(PDF)
        await stage.becomes("a.pdf", "ready")
        with path.open("ab") as file:
            file.write(b"\n" + PDF)
        await stage.until(lambda: sha256(PDF + b"\n" + PDF) in stage.copies(), "the longer one")
        (station,) = stage.intake._stations.values()
        assert station.lane.pace.settle == 1.0

    on(stage, play)


def test_intake_pauses_while_the_backlog_is_full_and_records_on(stage: Stage) -> None:
    stage.intake_settings = Intake(min_free_bytes=0, backlog=3)

    async def play(stage: Stage) -> None:
        for number in range(12):
            (stage.inbox / f"{number}.pdf").write_bytes(distinct(number))
        await stage.until(lambda: len(stage.rows()) == 12, "all to have a row")
        await stage.until(lambda: stage.reader.counts().files[FileState.READY] >= 3, "the backlog to be full")
        await stage.scanned()
        assert stage.reader.counts().files[FileState.READY] < 3 + 4  # those that were on their way
        (stage.inbox / "late.pdf").write_bytes(distinct(12))
        await stage.until(lambda: stage.state("late.pdf") == "settling", "a late file to have a row")
        while stage.reader.counts().files["settling"]:  # type: ignore[index]
            for row in stage.files():
                if row.state == "ready":
                    (stage.inbox / row.name).unlink(missing_ok=True)
            await asyncio.sleep(0.05)

    on(stage, play)


def test_a_full_disk_pauses_intake_until_there_is_space(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    free = [0]
    monkeypatch.setattr(Spool, "free", lambda _: free[0])
    stage.intake_settings = Intake(min_free_bytes=1000)

    async def play(stage: Stage) -> None:
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.until(lambda: stage.reader.inboxes()[0].state == "no_space", "the state to be told")
        (row,) = stage.reader.inboxes()
        assert (row.state, row.reason) == (
            "no_space",
            "the disk of the spool has less than 1,000 bytes free",
        )
        assert stage.state("a.pdf") == "settling"
        free[0] = 10**9
        await stage.becomes("a.pdf", "ready")
        await stage.until(lambda: stage.reader.inboxes()[0].state == "watching", "the state to pass")

    on(stage, play)


def test_a_file_that_does_not_fit_keeps_no_other_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "NO_ROOM_S", 0.1)
    free = [1000 + len(PDF)]
    monkeypatch.setattr(Spool, "free", lambda _: free[0])
    stage.intake_settings = Intake(min_free_bytes=1000)
    large = PDF.replace(b"%%EOF", b"%" * 10_000 + b"\n%%EOF")

    async def play(stage: Stage) -> None:
        (stage.inbox / "large.pdf").write_bytes(large)
        await stage.until(lambda: "no room for it" in stage.reason("large.pdf"), "the reason to be told")
        (stage.inbox / "small.pdf").write_bytes(PDF)
        await stage.becomes("small.pdf", "ready")
        assert stage.state("large.pdf") == "settling"
        assert f"{len(large):,} bytes free, and 1,000 to spare" in stage.reason("large.pdf")
        free[0] = 10**9
        await stage.becomes("large.pdf", "ready")

    on(stage, play)


def test_outputs_beside_their_originals_are_never_input(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        (stage.inbox / "a.pdf").write_bytes(PDF)
        for name in ("a.pdf.md", "a.pdf.json", "a.pdf.2.md", ".inboxd-0123456789abcdef.tmp"):
            (stage.inbox / name).write_text("words")
        (stage.inbox / "notes.md").write_text("a person's")
        await stage.becomes("a.pdf", "ready")
        await stage.becomes("notes.md", "skipped")
        await stage.settled()
        assert set(stage.rows()) == {"a.pdf", "notes.md"}

    on(stage, play)


def test_a_row_that_lost_its_copy_settles_and_is_taken_again(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.becomes("a.pdf", "ready")
        (row,) = stage.files()
        stage.spool.release(sha256(PDF))
        await stage.ledger.write(arrivals.resettle, [row.id], "its copy was lost", now=1e9)
        await stage.until(lambda: stage.copies() and stage.state("a.pdf") == "ready", "it to be taken again")

    on(stage, play)


def test_what_no_scan_comes_to_any_more_does_not_settle_for_ever(stage: Stage) -> None:
    names = ("old.pdf", "new.pdf", "turned.pdf")

    async def first(stage: Stage) -> None:
        (stage.inbox / "first.pdf").write_bytes(distinct(0))
        await stage.becomes("first.pdf", "ready")  # and is the whole backlog
        (stage.inbox / "drafts").mkdir()
        (stage.inbox / "old.pdf").write_bytes(distinct(1))
        (stage.inbox / "drafts" / "new.pdf").write_bytes(distinct(2))
        (stage.inbox / "turned.pdf").write_bytes(distinct(3))
        await stage.until(lambda: [stage.state(name) for name in names] == ["settling"] * 3, "all to be seen")

    async def left_out(stage: Stage) -> None:
        await stage.settled()
        assert stage.rows() == {
            "first.pdf": ("ready", ""),
            "old.pdf": ("vanished", "in the inbox's exclude setting (old*)"),
            "new.pdf": ("vanished", "in the inbox's exclude setting (drafts)"),
            "turned.pdf": ("vanished", "deleted before it was done"),
        }

    async def let_in_again(stage: Stage) -> None:
        for name in ("old.pdf", "new.pdf"):
            await stage.becomes(name, "ready")

    stage.intake_settings = Intake(min_free_bytes=0, backlog=1)
    on(stage, first)
    (stage.inbox / "turned.pdf").unlink()
    (stage.inbox / "turned.pdf").mkdir()
    stage.settings["exclude"] = ["old*", "drafts"]
    on(stage, left_out)
    stage.intake_settings = Intake(min_free_bytes=0)
    stage.settings["exclude"] = []
    on(stage, let_in_again)


def test_a_file_whose_row_went_while_it_was_looked_at_harms_nobody(stage: Stage) -> None:
    async def play(stage: Stage) -> None:
        for name in ("cut.pdf", "text.pdf"):
            (stage.inbox / name).write_bytes(PDF[:5000] if name == "cut.pdf" else b"text")
        await stage.until(lambda: len(stage.rows()) == 2, "two rows")
        gone = [Gone(stage.ids[0], name) for name in (b"cut.pdf", b"text.pdf")]
        await stage.ledger.write(arrivals.gone, gone, now=1e9)  # behind the back of intake
        await stage.until(lambda: stage.intake.idle, "intake to be idle")
        (stage.inbox / "a.pdf").write_bytes(PDF)
        await stage.becomes("a.pdf", "ready")

    on(stage, play)
