"""The whole daemon with the vLLM engine: PDFs in, text beside them, also when the engine is killed meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pages
import pymupdf
import pytest
import tiny
from tests.process.daemon import Daemon, output

WIDTH, HEIGHT = 420, 210  # points: 560 × 280 pixels at the model's longest edge


def write_pdf(path: Path, truths: list[list[str]]) -> None:
    """Each truth as a page of printed lines, at the size that the tiny checkpoint was trained on."""
    document = pymupdf.open()
    for rows in truths:
        page = document.new_page(width=WIDTH, height=HEIGHT)
        for number, row in enumerate(rows):
            page.insert_text((15, 30 + 28.5 * number), row, fontsize=18, fontname="dejavu", fontfile=pages.FONT)
    document.save(path)


@pytest.fixture
def daemon(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Daemon]:
    name = getattr(request, "param", "vllm")
    made = Daemon(tmp_path_factory.mktemp("d"), engine=name)  # a short path, for vLLM's sockets to fit below it
    engine = tiny.settings(made.state).engine
    made.config.write_text(
        made.config.read_text().replace(
            f'name = "{name}"\n',
            f'name = "{name}"\nmodel = "{engine.model}"\nmodel_profile = "{engine.model_profile}"\n'
            f'profiles = "{engine.profiles}"\n',
        )
    )
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()


def engine_processes(daemon: Daemon) -> list[int]:
    """The processes of the daemon's vLLM: its child, and all of that child's group."""
    assert daemon.process is not None
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it ended just now
            continue
        if parent == daemon.process.pid and b"inboxd.engines.vllm_child" in command:
            found.append(int(entry.name))
    return found


def test_pdfs_come_out_as_text(daemon: Daemon) -> None:
    truths = [pages.lines(seed) for seed in range(100, 106)]
    write_pdf(daemon.inbox / "letters.pdf", truths)
    assert daemon.drain(timeout=600) == 0, daemon.log()
    told = output(daemon.inbox / "letters.pdf")
    texts = [page["text"] for page in told["pages"]]
    assert [page["state"] for page in told["pages"]] == ["ok"] * len(truths)
    wrong = [pages.errors(text, "\n".join(truth)) for text, truth in zip(texts, truths, strict=True)]
    assert sum(wrong) / len(wrong) <= 0.05, list(zip(texts, truths, strict=True))
    markdown = (daemon.inbox / "letters.pdf.md").read_text()
    assert all(text.split("\n")[0] in markdown for text in texts)
    ((finish, tokens_in, first, logprob),) = daemon.sql(
        "SELECT DISTINCT finish, tokens_in > 200, first_token_s > 0, mean_logprob < 0 FROM pages"
    )
    assert (finish, tokens_in, first, logprob) == ("stop", 1, 1, 1)


def test_a_killed_engine_costs_no_page_and_doubles_none(daemon: Daemon) -> None:
    truths = {f"file{n}.pdf": [pages.lines(10 * n + page) for page in range(6)] for n in range(4)}
    for name, rows in truths.items():
        write_pdf(daemon.inbox / name, rows)
    daemon.start("--until-drained")
    in_flight = "SELECT count(*) FROM pages WHERE state = 'in_flight' AND batch IS NOT NULL"
    daemon.wait(lambda: any(count >= 4 for (count,) in daemon.sql(in_flight)), timeout=600)
    for pid in engine_processes(daemon):
        os.killpg(pid, signal.SIGKILL)
    assert daemon.process is not None
    assert daemon.process.wait(900) == 0, daemon.log()
    wrong = []
    for name, rows in truths.items():
        told = output(daemon.inbox / name)["pages"]
        assert [page["number"] for page in told] == list(range(1, len(rows) + 1))
        assert {page["state"] for page in told} == {"ok"}, told
        wrong += [pages.errors(page["text"], "\n".join(row)) for page, row in zip(told, rows, strict=True)]
    assert sum(wrong) / len(wrong) <= 0.05
    ((deaths,),) = daemon.sql("SELECT max(deaths) FROM pages")
    assert deaths == 1, daemon.log()


@pytest.mark.parametrize("daemon", ["vllm-pair"], indirect=True)
def test_one_of_two_engines_is_killed_and_joins_again(daemon: Daemon, tmp_path: Path) -> None:
    package = tmp_path / "site" / "vllm_pair-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-pair\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[inboxd.engines]\nvllm-pair = pair:create\n")
    path = os.pathsep.join([str(package.parent), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    truths = {f"file{n}.pdf": [pages.lines(10 * n + page) for page in range(10)] for n in range(4)}
    for name, rows in truths.items():
        write_pdf(daemon.inbox / name, rows)
    daemon.start(env={"PYTHONPATH": path})
    in_flight = "SELECT count(*) FROM pages WHERE state = 'in_flight' AND batch IS NOT NULL"
    daemon.wait(lambda: any(count >= 16 for (count,) in daemon.sql(in_flight)), timeout=600)
    first, second = engine_processes(daemon)
    os.killpg(second, signal.SIGKILL)
    daemon.wait(lambda: set(daemon.states().values()) == {"done"}, timeout=600)
    engines = "SELECT event FROM events WHERE event LIKE 'engines%' ORDER BY id"
    daemon.wait(lambda: daemon.sql(engines) == [("engines missing",), ("engines complete",)], timeout=600)
    assert first in engine_processes(daemon) and len(engine_processes(daemon)) == 2
    wrong = []
    for name, rows in truths.items():
        told = output(daemon.inbox / name)["pages"]
        assert [page["number"] for page in told] == list(range(1, len(rows) + 1))
        assert {page["state"] for page in told} == {"ok"}, told
        wrong += [pages.errors(page["text"], "\n".join(row)) for page, row in zip(told, rows, strict=True)]
    assert sum(wrong) / len(wrong) <= 0.05
    deaths = dict(daemon.sql("SELECT deaths, count(*) FROM pages GROUP BY deaths"))
    assert set(deaths) == {0, 1} and 1 <= deaths[1] <= 9, "only pages that were in the killed one"
    assert daemon.kill(signal.SIGTERM) == 0, daemon.log()
