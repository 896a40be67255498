"""More at once than the kernel's queue of events holds, files that are gone when looked at, and a huge book."""

from __future__ import annotations

import os
import signal
import struct
import zlib
from pathlib import Path

import pytest
from tests.process.daemon import running, with_plugin
from tests.process.test_survival import pages_read, pdf

pytestmark = pytest.mark.slow

BURST = 20_000
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
GROWN = 200 * 1024**2
"""Bytes that the daemon may hold more for a burst."""


def png(number: int) -> bytes:
    """A whole PNG of 8 × 8 pixels that no other number gives."""
    rows = b"".join(b"\0" + struct.pack(">Q", number * 2654435761 % 2**64) for _ in range(8))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 1)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def resident(process: int) -> int:
    """Bytes that a process holds."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def test_twenty_thousand_files_while_it_was_stopped(tmp_path: Path) -> None:
    assert int(QUEUE.read_text()) < BURST, "this kernel's queue of events holds them all: make it more"
    with running(tmp_path, more="[render]\nworkers = 1") as daemon:
        pdf(os.fsencode(daemon.inbox / "first.pdf"), "first")
        daemon.wait_for(first__pdf="done")
        process = daemon.process
        assert process is not None
        before = resident(process.pid)
        process.send_signal(signal.SIGSTOP)
        for number in range(BURST):
            (daemon.inbox / f"{number}.png").write_bytes(png(number))
        process.send_signal(signal.SIGCONT)
        daemon.wait(lambda: daemon.sql("SELECT count(*) FROM files") == [(BURST + 1,)])
        pdf(os.fsencode(daemon.inbox / "late.pdf"), "late")
        daemon.wait(lambda: daemon.sql("SELECT state FROM files WHERE name = ?", (b"late.pdf",)) == [("done",)])
        assert daemon.sql("SELECT count(*) FROM files WHERE state NOT IN ('done', 'quarantined')")[0][0] > BURST // 2
        assert resident(process.pid) - before < GROWN
        lines = (tmp_path / "life-1.log").read_text().count("\n")
        taken = daemon.sql("SELECT count(*) FROM files WHERE settled IS NOT NULL")[0][0]
        assert lines < 3 * taken + 100, "a file that only waits is no line"
        assert daemon.sql("SELECT count(*), count(DISTINCT name) FROM files") == [(BURST + 2, BURST + 2)]


def test_files_that_are_gone_when_they_are_looked_at(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.wait(lambda: daemon.sql("SELECT state FROM inboxes") == [("watching",)])
        for number in range(1000):
            (daemon.inbox / f"{number}.pdf").touch()
            (daemon.inbox / f"{number}.pdf").unlink()
        pdf(os.fsencode(daemon.inbox / "good.pdf"), "good")
        daemon.wait_for(good__pdf="done")
        log = daemon.log()
        assert "Traceback" not in log
        assert "level=error" not in log
        daemon.wait(lambda: set(daemon.states().values()) <= {"done", "vanished"})


PAGES = 5000


def book(path: Path) -> None:
    """A PDF of PAGES small pages, each with its number."""
    data, places = bytearray(b"%PDF-1.4\n"), []

    def thing(body: bytes) -> None:
        places.append(len(data))
        data.extend(b"%d 0 obj\n%s\nendobj\n" % (len(places), body))

    thing(b"<< /Type /Catalog /Pages 2 0 R >>")
    kids = b" ".join(b"%d 0 R" % (4 + 2 * number) for number in range(PAGES))
    thing(b"<< /Type /Pages /Count %d /Kids [%s] /MediaBox [0 0 60 60] >>" % (PAGES, kids))
    thing(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number in range(1, PAGES + 1):
        resources = b"/Resources << /Font << /F 3 0 R >> >>"
        thing(b"<< /Type /Page /Parent 2 0 R %s /Contents %d 0 R >>" % (resources, len(places) + 2))
        words = b"BT /F 9 Tf 5 30 Td (%d) Tj ET" % number
        thing(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(words), words))
    start, size = len(data), len(places) + 1
    data.extend(b"xref\n0 %d\n0000000000 65535 f \n" % size)
    data.extend(b"".join(b"%010d 00000 n \n" % place for place in places))
    data.extend(b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, start))
    path.write_bytes(data)


def test_a_letter_overtakes_a_book_and_a_kill_does_not_begin_it_anew(tmp_path: Path) -> None:
    with running(tmp_path, allow=100) as daemon:
        book(daemon.inbox / "book.pdf")
        daemon.wait(lambda: pages_read(daemon) == 100)
        pdf(os.fsencode(daemon.inbox / "letter.pdf"), "letter")
        daemon.wait_for(letter__pdf="reading")
        daemon.allow(200)
        daemon.wait_for(letter__pdf="done")
        assert daemon.states()["book.pdf"] == "reading"
        daemon.kill()
        read = dict(daemon.sql("SELECT id, finished FROM pages WHERE state = 'ok'"))
        assert len(read) > 100
        daemon.allow(None)
        daemon.start(env=with_plugin())
        daemon.wait(lambda: pages_read(daemon) > len(read) + 100)
        after = dict(daemon.sql("SELECT id, finished FROM pages WHERE state = 'ok'"))
        assert {page: after[page] for page in read} == read
        assert daemon.sql("SELECT count(*) FROM pages") == [(PAGES + 1,)]
