"""kill -9 at any moment, then a restart: each input ends with one right output, and nothing half-written is seen."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import threading
from pathlib import Path

import pymupdf
import pytest
from tests.process.daemon import Daemon, litter, output, running, with_plugin


def pdf(path: bytes, *pages: str) -> None:
    """A small PDF with a line of text on each page."""
    with pymupdf.open() as document:
        for text in pages:
            document.new_page(width=200, height=120).insert_text((20, 60), text)
        data = document.tobytes()
    with open(path, "wb") as file:  # noqa: PTH123 - bytes path
        file.write(data)


def names(count: int) -> list[bytes]:
    """Nested paths in UTF-8, Latin-1 bytes and with a line break, by turns."""
    made = []
    for n in range(count):
        folder = b"f%d/%s" % (n % 7, b"deep/er" if n % 3 else "großе папка".encode())
        odd = (
            f"übersicht-納品書-{n}.pdf".encode()
            if n % 3 == 0
            else b"caf\xe9-%d.pdf" % n
            if n % 3 == 1
            else b"a\nb-%d.pdf" % n
        )
        made.append(folder + b"/" + odd)
    return made


def pages_read(daemon: Daemon) -> int:
    """Pages whose text is in the ledger."""
    return sum(count for (count,) in daemon.sql("SELECT count(*) FROM pages WHERE state = 'ok'"))


class Watcher(threading.Thread):
    """Reads every finished output name again and again, and remembers any that was not whole."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder = os.fsencode(folder)
        self.done = threading.Event()
        self.half: list[bytes] = []
        self.looks = 0

    def run(self) -> None:
        while not self.done.wait(0.01):
            for where, _, files in os.walk(self._folder):
                for name in files:
                    if name.startswith(b".") or not name.endswith((b".json", b".md")):
                        continue
                    with open(where + b"/" + name, "rb") as file:  # noqa: PTH123 - bytes path
                        data = file.read()
                    self.looks += 1
                    if not (data.endswith(b"\n") and (name.endswith(b".md") or _parses(data))):
                        self.half.append(name)


def _parses(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_three_hundred_files_and_ten_kills(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    daemon = Daemon(tmp_path)
    inbox = os.fsencode(daemon.inbox)
    wanted = names(300)
    watcher = Watcher(daemon.inbox)
    watcher.start()
    kills = 0
    for share in range(10):
        goal = pages_read(daemon) + chance.randrange(50)  # what this share adds is more
        daemon.start()
        for n, name in enumerate(wanted[share * 30 : share * 30 + 30]):
            os.makedirs(os.path.dirname(inbox + b"/" + name), exist_ok=True)  # noqa: PTH103, PTH120 - bytes paths
            pdf(inbox + b"/" + name, f"file {share * 30 + n} page 1", f"file {share * 30 + n} page 2")
        daemon.wait(lambda goal=goal: pages_read(daemon) >= goal)
        daemon.kill()
        kills += 1
    assert daemon.drain() == 0, daemon.log()
    watcher.done.set()
    watcher.join()

    assert watcher.looks, "the watcher never saw an output"
    assert not watcher.half, f"seed {seed}"
    for name in wanted:
        with open(inbox + b"/" + name, "rb") as file:  # noqa: PTH123 - bytes path
            digest = hashlib.sha256(file.read()).hexdigest()
        made = output(inbox + b"/" + name)
        assert made["sha256"] == digest
        assert [page["state"] for page in made["pages"]] == ["ok", "ok"]
        assert os.path.exists(inbox + b"/" + name + b".md")  # noqa: PTH110 - bytes path
    outputs = [n for _, _, files in os.walk(inbox) for n in files if n.endswith((b".md", b".json"))]
    assert len(outputs) == 600, f"one output set a file, seed {seed}"
    assert not litter(daemon.inbox)
    assert daemon.sql("SELECT state, count(*) FROM files GROUP BY state") == [("done", 300)]
    assert daemon.sql("SELECT max(attempts) FROM pages")[0][0] <= kills + 1
    assert daemon.sql("SELECT count(*) FROM runs WHERE exit_code IS NULL")[0][0] <= kills


def test_pages_read_before_a_kill_are_not_read_again(tmp_path: Path) -> None:
    with running(tmp_path, allow=20) as daemon:
        pdf(os.fsencode(daemon.inbox / "long.pdf"), *(f"page {n}" for n in range(200)))
        daemon.wait(lambda: pages_read(daemon) == 20)
        daemon.kill()
        read = dict(daemon.sql("SELECT id, finished FROM pages WHERE state = 'ok'"))
        daemon.allow(None)
        assert daemon.drain(env=with_plugin()) == 0, daemon.log()
        after = dict(daemon.sql("SELECT id, finished FROM pages"))
        assert len(after) == 200
        assert {page: after[page] for page in read} == read


def test_sigterm_ends_with_zero_and_leaves_nothing_claimed(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        pdf(os.fsencode(daemon.inbox / "long.pdf"), *(f"page {n}" for n in range(300)))
        daemon.wait(lambda: pages_read(daemon) >= 5)
        assert daemon.kill(signal.SIGTERM) == 0, daemon.log()
        assert daemon.sql("SELECT count(*) FROM pages WHERE state = 'in_flight'") == [(0,)]
        assert daemon.sql("SELECT exit_code FROM runs") == [(0,)]
        assert not litter(daemon.inbox)
        assert daemon.drain() == 0, daemon.log()
        assert daemon.states() == {"long.pdf": "done"}
