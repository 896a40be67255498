"""What is uploaded, and what must have come of it: each file once, whole, whatever the way it was written."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

from tests.corpus import FOLDER as SAMPLES
from tests.process.daemon import Daemon, litter, output

FILES = {
    "scan.pdf": ("multi_es-zhHant-ja_scan.pdf", 3),
    "letter.pdf": ("nl_notice_digital.pdf", 1),
    "photo.jpg": ("de_notice_degraded.jpg", 1),
    "page.png": ("en_report.png", 1),
    "fax.tif": ("multi_de-fr-sv_g4.tif", 3),
}
PAGES = (
    "SELECT p.number, p.state, p.attempts FROM pages p JOIN files f ON f.id = p.file WHERE f.name = ? ORDER BY p.number"
)
LATEST = "SELECT mtime_ns FROM files WHERE name = ? ORDER BY id DESC LIMIT 1"
PAUSE_S = 0.6
"""Seconds that a slow writer rests: three times the settle time of the daemon in tests."""


def content(kind: str, number: int) -> bytes:
    """The bytes of one of FILES, which no other number gives."""
    return (SAMPLES / FILES[kind][0]).read_bytes() + b"\n%% %d\n" % number


def rounds(contents: dict[str, bytes], count: int) -> Iterator[dict[str, tuple[int, bytes]]]:
    """`count` pieces of each content with their offsets, one of each in a round; the writer rests before it."""
    for turn in range(count):
        time.sleep(PAUSE_S)
        yield {
            name: (len(data) * turn // count, data[len(data) * turn // count : len(data) * (turn + 1) // count])
            for name, data in contents.items()
        }


def placed(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    """The files on the client's side, with an old time, as copies keep it."""
    folder.mkdir(exist_ok=True)
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in contents]


def all_came_once_and_whole(daemon: Daemon, contents: dict[str, bytes]) -> None:
    """Wait until all are done; see that each was read once, as a whole, and has one set of outputs.

    The kind of a file is its name's last word. Nothing may have come but these: no temporary name of any client.
    """
    daemon.wait(lambda: all(is_done(daemon, name, data) for name, data in contents.items()))
    for name, data in contents.items():
        # Who sets the file's time long after its last byte makes another row, of the same content.
        assert {sha256 for _, sha256 in rows(daemon, name)} == {digest(data)}, "a part of it was taken for the whole"
        read = daemon.sql(PAGES, (name.encode(),))
        pages = FILES[name.split()[-1]][1]
        assert read == [(number, "ok", 1) for number in range(1, pages + 1)]
        made = output(daemon.inbox / name)
        assert (made["sha256"], len(made["pages"])) == (digest(data), pages)
        assert (daemon.inbox / name).read_bytes() == data
        assert {path.name for path in daemon.inbox.glob(f"{name}*")} == {name, f"{name}.md", f"{name}.json"}
    assert not litter(daemon.inbox)
    assert {name for (name,) in daemon.sql("SELECT name FROM v_files WHERE state != 'done'")} == set()


def rows(daemon: Daemon, name: str) -> list[tuple[str, str | None]]:
    """State and hash of every version of a file, in the order in which they came."""
    return daemon.sql("SELECT state, sha256 FROM files WHERE name = ? ORDER BY id", (name.encode(),))


def is_done(daemon: Daemon, name: str, data: bytes) -> bool:
    """Whether a file is done as it now is: not only as it was before a client set its time, say."""
    is_seen = daemon.sql(LATEST, (name.encode(),)) == [((daemon.inbox / name).stat().st_mtime_ns,)]
    return is_seen and rows(daemon, name)[-1:] == [("done", digest(data))]


def waits_for_more(daemon: Daemon, name: str) -> bool:
    """Whether the daemon has seen that a file lacks its end, and waits for it."""
    told = daemon.sql("SELECT state, reason FROM v_files WHERE name = ?", (name,))
    return any(state == "settling" and reason.startswith("incomplete: the ") for state, reason in told)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
