"""One of two engine processes is killed in mid-work: the whole daemon, real processes, each page exactly once."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pymupdf
import pytest
from tests.process.daemon import INBOXD, Daemon, output, received
from tests.process.twins import FOLDER, NAMES, PLACES

ROOT = Path(__file__).parents[2]
FILES, PAGES = 4, 6


class Stage:
    """A daemon whose engines are the twins, and the files that tell them what to do."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "twins"
        package = root / "site" / "twins-1.dist-info"
        for new in (self.folder, package):
            new.mkdir(parents=True)
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: twins\nVersion: 1\n")
        (package / "entry_points.txt").write_text("[inboxd.engines]\ntwins = tests.process.twins:create\n")
        self.daemon = Daemon(root, engine="twins", more="[retry]\nfirst_delay = 0.1\nmax_delay = 0.1")
        path = os.pathsep.join([str(ROOT), str(package.parent), os.environ.get("PYTHONPATH", "")])
        self.env = {"PYTHONPATH": path, FOLDER: str(self.folder)}

    def start(self, *options: str, **env: str) -> None:
        self.daemon.start(*options, env=self.env | env)

    def drop(self, *names: str) -> None:
        for name in names:
            with pymupdf.open() as document:
                for _ in range(PAGES):
                    document.new_page(width=200, height=120).insert_text((20, 60), name)
                document.save(self.daemon.inbox / name)

    def given(self, name: str) -> int:
        """How many pages the twin's processes were given so far."""
        path = self.folder / f"{name}.has"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def fill(self, times: int = 1) -> None:
        """Wait until both hold as many pages as they take, for the nth time; they hold them until `go`."""
        self.daemon.wait(lambda: all(self.given(name) == times * PLACES for name in NAMES))

    def kill(self, *names: str) -> None:
        """Kill engines, all before the daemon can hear of one."""
        assert self.daemon.process is not None
        self.daemon.process.send_signal(signal.SIGSTOP)
        for name in names:
            os.kill(int((self.folder / f"{name}.pid").read_text()), signal.SIGKILL)
        self.daemon.process.send_signal(signal.SIGCONT)

    def go(self) -> None:
        (self.folder / "go").touch()

    def halt(self) -> None:
        (self.folder / "go").unlink()

    def break_(self, name: str) -> None:
        (self.folder / f"{name}.broken").touch()

    def events(self) -> list[tuple[str, str]]:
        return self.daemon.sql("SELECT event, detail FROM events WHERE event LIKE 'engines%' ORDER BY id")

    def status(self) -> str:
        command = [*INBOXD, "status", "--config", str(self.daemon.config)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def pages(self, *names: str) -> list[str]:
        """Who read each page of these files; every page stands once in its output, in order."""
        texts = []
        for name in names:
            pages = output(self.daemon.inbox / name)["pages"]
            assert [page["number"] for page in pages] == list(range(1, PAGES + 1))
            assert {page["state"] for page in pages} == {"ok"}, pages
            texts += [page["text"] for page in pages]
        return texts

    def deaths(self) -> dict[int, int]:
        """How many pages died how often."""
        return dict(self.daemon.sql("SELECT deaths, count(*) FROM pages GROUP BY deaths"))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    if made.daemon.process is not None and made.daemon.process.poll() is None:
        made.daemon.kill()


NAMES_OF_FILES = tuple(f"file{number}.pdf" for number in range(FILES))


def test_the_pages_of_a_killed_engine_come_out_on_the_other_and_it_joins_again(stage: Stage) -> None:
    stage.drop(*NAMES_OF_FILES)
    stage.start()
    stage.fill()
    stage.kill("left")
    stage.daemon.wait(lambda: len(stage.events()) == 2)
    lost, back = stage.events()
    assert lost == ("engines missing", "1 of 2 engines: left: the process of left died")
    assert back == ("engines complete", "")
    assert "engines" not in stage.status()
    stage.go()
    stage.daemon.wait(lambda: set(stage.daemon.states().values()) == {"done"})
    stage.pages(*NAMES_OF_FILES)
    assert stage.deaths() == {0: FILES * PAGES - PLACES, 1: PLACES}, "only the pages in the killed one are charged"
    stage.halt()
    before = {name: stage.given(name) for name in NAMES}
    stage.drop("later.pdf")
    stage.daemon.wait(lambda: all(stage.given(name) > before[name] for name in NAMES))
    stage.go()
    stage.daemon.wait_for(later__pdf="done")
    assert set(stage.pages("later.pdf")) == {"read by left", "read by right"}


def test_with_one_gone_for_good_the_other_reads_on_and_the_status_says_so(stage: Stage, tmp_path: Path) -> None:
    missing = "1 of 2 engines: left: left fell off the bus"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        stage.drop(*NAMES_OF_FILES)
        stage.start(NOTIFY_SOCKET=str(tmp_path / "notify"))
        stage.fill()
        stage.break_("left")
        stage.kill("left")
        stage.daemon.wait(lambda: ("engines missing", missing) in stage.events())
        # Heard now and not at the end: the socket holds a few messages, and those beyond are lost.
        stage.daemon.wait(lambda: any(f"STATUS={missing}, " in message for message in received(systemd)))
        stage.go()
        stage.daemon.wait(lambda: set(stage.daemon.states().values()) == {"done"})
        assert set(stage.pages(*NAMES_OF_FILES)) == {"read by right"}
        assert stage.deaths() == {0: FILES * PAGES - PLACES, 1: PLACES}
        assert f"\n  {missing}\n" in stage.status()
    assert stage.daemon.kill(signal.SIGTERM) == 0, stage.daemon.log()


def test_when_all_are_lost_all_are_started_again(stage: Stage) -> None:
    stage.drop(*NAMES_OF_FILES)
    stage.start("--until-drained")
    stage.fill()
    stage.kill(*NAMES)
    stage.fill(2)
    stage.go()
    assert stage.daemon.process is not None
    assert stage.daemon.process.wait(120) == 0, stage.daemon.log()
    assert set(stage.pages(*NAMES_OF_FILES)) == {"read by left", "read by right"}
    assert stage.deaths() == {0: FILES * PAGES - 2 * PLACES, 1: 2 * PLACES}


def test_when_all_are_gone_for_good_the_daemon_ends_with_the_reason(stage: Stage) -> None:
    stage.drop(*NAMES_OF_FILES)
    stage.start("--until-drained")
    stage.fill()
    for name in NAMES:
        stage.break_(name)
    stage.kill(*NAMES)
    assert stage.daemon.process is not None
    assert stage.daemon.process.wait(120) == 78, stage.daemon.log()
    assert stage.daemon.sql("SELECT reason FROM runs") == [("left fell off the bus",)]
    assert stage.daemon.sql("SELECT count(*) FROM pages WHERE state = 'in_flight'") == [(0,)]


def test_reading_once_outlives_one_engine_too(stage: Stage, tmp_path: Path) -> None:
    with pymupdf.open() as document:
        for _ in range(2 * PLACES):
            document.new_page(width=200, height=120).insert_text((20, 60), "once")
        document.save(tmp_path / "once.pdf")
    command = [*INBOXD, "ocr", str(tmp_path / "once.pdf"), "--config", str(stage.daemon.config), "--format", "json"]
    with subprocess.Popen(command, env={**os.environ, **stage.env}, stdout=subprocess.PIPE, text=True) as reading:
        stage.daemon.process = reading
        stage.fill()
        stage.kill("left")
        stage.go()
        printed, _ = reading.communicate(timeout=60)
    assert [page["state"] for page in json.loads(printed)["pages"]] == ["ok"] * 2 * PLACES


@pytest.mark.slow
def test_a_page_that_kills_every_engine_is_read_alone_and_given_up(stage: Stage) -> None:
    stage.drop("a.pdf", "b.pdf")
    with pymupdf.open() as document:
        for height in (200, 120):
            document.new_page(width=200, height=height).insert_text((20, 60), "the square one is poison")
        document.save(stage.daemon.inbox / "poison.pdf")
    stage.go()
    stage.start("--until-drained")
    assert stage.daemon.process is not None
    assert stage.daemon.process.wait(180) == 0, stage.daemon.log()
    stage.pages("a.pdf", "b.pdf")
    poison, other = output(stage.daemon.inbox / "poison.pdf")["pages"]
    assert (poison["state"], other["state"]) == ("failed", "ok"), poison
    assert "3 processes died with it" in poison["reason"]
