"""Every nasty file, with good ones between them, through one life of the daemon: each ends as outcomes.tsv says.

What comes of each at the renderer stands in tests/rooms/render/test_nasty.py; here it is what a person finds in the
ledger and beside the file. Files whose licence keeps them out are looked for in the folder that INBOXD_NASTY names.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.corpus import FOLDER as SAMPLES
from tests.process.daemon import Daemon, litter, output
from tests.rooms.render.test_nasty import Expected, found, table

pytestmark = pytest.mark.slow

GOOD = {
    "nl_notice_digital.pdf": 1,
    "de_notice_degraded.jpg": 1,
    "da_report.png": 1,
    "multi_de-fr-sv_g4.tif": 3,
    "multi_es-zhHant-ja_scan.pdf": 3,
}
LARGEST = 3_000_000
MEMORY = 2 * 1024**3
"""Bytes that the one renderer may take beyond what it starts with."""
START = 512 * 1024**2
"""Bytes, generously, that a daemon and a renderer hold with nothing to do."""

ENDS = "SELECT id, state, reason, attempts, finished FROM files ORDER BY id"

CUT = {"trunc_image.png", "trunc_jpeg.jpg", "bmp_claims_really_big.bmp", "bomb_gif.gif", "bomb_tiff_oom.tif"}
"""Those whose end is missing: intake waits for it in vain."""
NO_DOCUMENT = {
    "five_bytes.pdf": "not a document: text",
    "heic_corrupted.heic": "HEIC is not supported: convert to JPEG",
    "heic_rgb8.heif": "HEIC is not supported: convert to JPEG",
    "heic_text_page.heic": "HEIC is not supported: convert to JPEG",
    "trunc.heic": "HEIC is not supported: convert to JPEG",
    "wrongext_docx_inside.pdf": "not a document: ",
    "wrongext_html_inside.pdf": "not a document: ",
}


@dataclass(frozen=True)
class Found:
    state: str
    reason: str
    pages: int
    page_states: tuple[str, ...]


@dataclass(frozen=True)
class Life:
    daemon: Daemon
    files: dict[str, Found]
    before: dict[str, str]  # name → sha256 of what was dropped
    peak: int  # bytes, all processes together


class Memory(threading.Thread):
    """The most memory that a process and its descendants held at once; what they share counts once."""

    def __init__(self, process: int) -> None:
        super().__init__(daemon=True)
        self._process = process
        self.over = threading.Event()
        self.peak = 0

    def run(self) -> None:
        while not self.over.wait(0.1):
            self.peak = max(self.peak, _held(self._process))


def _held(process: int) -> int:
    """Bytes of this process and of those below it; a process that has ended holds nothing."""
    place = Path(f"/proc/{process}")
    try:
        own = re.search(r"^Pss:\s+(\d+) kB", (place / "smaps_rollup").read_text(), re.MULTILINE)
        children = [child for task in place.glob("task/*/children") for child in task.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(own[1]) * 1024 if own else 0) + sum(_held(int(child)) for child in children)


def vast_png(side: int) -> bytes:
    """A small file that holds a white square of `side`² pixels."""
    row = b"\0" + b"\xff" * (side // 8)
    press = zlib.compressobj(9)
    pressed = b"".join(press.compress(row) for _ in range(side)) + press.flush()
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)), (b"IDAT", pressed), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    root = tmp_path_factory.mktemp("nasty")
    daemon = Daemon(
        root,
        inbox="max_settle = 1.0",
        more=f"[intake]\nmax_file_bytes = {LARGEST}\n"
        f"[render]\nworkers = 1\npage_timeout = 240\nmemory_bytes = {MEMORY}",
    )
    inbox = daemon.inbox
    nasty = [row.file for row in table() if found(row.file)]
    good = iter(GOOD)
    for number, name in enumerate(nasty):
        if number % (len(nasty) // len(GOOD)) == 0 and (one := next(good, None)):
            shutil.copy(SAMPLES / one, inbox / f"good {one}")
        path = found(name)
        assert path is not None
        shutil.copyfile(path, inbox / name)
    for one in good:
        shutil.copy(SAMPLES / one, inbox / f"good {one}")
    (inbox / "vast.png").write_bytes(vast_png(30_000))
    with (inbox / "long.pdf").open("wb") as file:
        file.write(b"%PDF-1.7\n")
        file.truncate(LARGEST + 1234)
    before = digests(inbox)
    process = daemon.start("--until-drained")
    memory = Memory(process.pid)
    memory.start()
    assert process.wait(280) == 0, daemon.log()
    memory.over.set()
    memory.join()
    first = daemon.sql(ENDS)
    assert daemon.drain() == 0, daemon.log()
    assert daemon.sql(ENDS) == first, "nothing is tried again in the next life"
    states: dict[int, list[str]] = {}
    for file, state in daemon.sql("SELECT file, state FROM pages ORDER BY file, number"):
        states.setdefault(file, []).append(state)
    files = {
        bytes(name).decode(): Found(state, reason, pages or 0, tuple(states.get(number, ())))
        for number, name, state, reason, pages in daemon.sql("SELECT id, name, state, reason, pages FROM files")
    }
    return Life(daemon, files, before, memory.peak)


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("expected", table(), ids=lambda expected: expected.file)
def test_each_ends_as_it_should(expected: Expected, life: Life) -> None:
    name = expected.file
    if name not in life.before:
        pytest.skip("its licence keeps it out of the repository: set INBOXD_NASTY to the folder that has it")
    got = life.files[name]
    if name == "zero_bytes.pdf":
        assert (got.state, got.reason) == ("quarantined", "incomplete: it is empty (0 bytes)")
    elif name in NO_DOCUMENT:
        assert got.state == "skipped"
        assert got.reason.startswith(NO_DOCUMENT[name])
    elif expected.refused:
        assert got.state == "quarantined"
        assert got.reason.startswith("incomplete: ") if name in CUT else got.reason == expected.refused
    elif set(expected.sizes) == {"failed"}:
        assert got.state == "quarantined"
        assert got.reason.startswith("no page of it could be read: corrupt")
    else:
        assert (got.state, got.pages) == ("done", expected.pages)
        made = output(life.daemon.inbox / name)
        assert made["sha256"] == life.before[name]
        assert [page["number"] for page in made["pages"]] == list(range(1, expected.pages + 1))
        sizes = [*expected.sizes, *expected.sizes[-1:] * (expected.pages - len(expected.sizes))]
        for page, size in zip(made["pages"], sizes, strict=True):
            assert (page["state"] == "failed") == (size == "failed"), page
        return
    assert got.reason.isprintable()
    assert not any((life.daemon.inbox / f"{name}.{kind}").exists() for kind in ("md", "json"))


def test_what_is_too_large_says_by_how_much(life: Life) -> None:
    assert life.files["long.pdf"].state == life.files["vast.png"].state == "quarantined"
    assert life.files["long.pdf"].reason.startswith("too large: 3,001,234 bytes, 1,234 more than")
    assert life.files["vast.png"].reason.startswith(
        "too large: 30000 × 30000 pixels are 900 million, 2.2 times the 400 million allowed"
    )


def test_the_good_ones_are_done(life: Life) -> None:
    for name, pages in GOOD.items():
        assert life.files[f"good {name}"] == Found("done", "", pages, ("ok",) * pages)


def test_each_came_to_one_end(life: Life) -> None:
    assert set(life.files) == set(life.before)
    assert {got.state for got in life.files.values()} <= {"done", "quarantined", "skipped", "duplicate"}
    assert not life.daemon.sql("SELECT * FROM pages WHERE state IN ('pending', 'in_flight', 'retrying')")


def test_originals_are_as_they_were_and_nothing_is_left_behind(life: Life) -> None:
    assert life.before.items() <= digests(life.daemon.inbox).items()
    assert not litter(life.daemon.inbox)
    assert not [path for path in (life.daemon.state / "spool").rglob("*") if path.is_file()]


def test_no_control_character_of_a_text_layer_gets_out(life: Life) -> None:
    for path in life.daemon.inbox.glob("*.md"):
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", path.read_text()), path.name


def test_memory_is_bounded(life: Life) -> None:
    assert 0 < life.peak < START + MEMORY, f"{life.peak:,} bytes"
