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
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path, engine="vllm")
    engine = tiny.settings(tmp_path).engine
    made.config.write_text(
        made.config.read_text().replace(
            'name = "vllm"\n',
            f'name = "vllm"\nmodel = "{engine.model}"\nmodel_profile = "{engine.model_profile}"\n'
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
