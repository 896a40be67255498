"""The CPU engine keeps the contract with real models; a reading process that dies or hangs costs one page."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from tests import corpus
from tests.engines.conformance import Conformance, blank, page, text_page

from inboxd import errors
from inboxd.engines import cpu_process, golden
from inboxd.engines.cpu import CpuEngine
from inboxd.errors import EngineUnusable
from inboxd.model import PageFailure, PageImage, PageText

pytestmark = pytest.mark.xdist_group("cpu-engine")  # so that one test process starts the shared engine


class TestCpuEngine(Conformance):
    @staticmethod
    def make() -> CpuEngine:
        return CpuEngine(workers=2, page_timeout=280)


class TestOneProcess:
    """What only this engine does, with one reading process."""

    @pytest.fixture(scope="class")
    @classmethod
    def loop(cls) -> Iterator[asyncio.Runner]:
        with asyncio.Runner() as runner:
            yield runner

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, loop: asyncio.Runner) -> Iterator[CpuEngine]:
        engine = CpuEngine(workers=1, page_timeout=280)
        loop.run(engine.start())
        yield engine
        loop.run(engine.close())

    def test_a_page_on_its_side_is_turned_and_its_boxes_with_it(self, engine: CpuEngine, loop: asyncio.Runner) -> None:
        reading = loop.run(engine.read(page(golden.on_its_side())))
        assert isinstance(reading, PageText)
        assert reading.turned == 90
        assert reading.text.splitlines()[0] == "This page is read when inboxd"
        assert reading.confidence is not None and reading.confidence > 0.95
        height, width = golden.upright().shape[:2]
        assert all(0 <= box.x0 < box.x1 <= width and 0 <= box.y0 < box.y1 <= height for box in reading.boxes)
        assert [box.y0 for box in reading.boxes] == sorted(box.y0 for box in reading.boxes)
        assert 0 < reading.read_s < 120

    def test_a_killed_process_costs_its_page_only(self, engine: CpuEngine, loop: asyncio.Runner) -> None:
        async def killed() -> PageText | PageFailure:
            (pid,) = engine.processes
            before = cpu_seconds(pid)
            reading = asyncio.create_task(engine.read(busy_page()))
            while cpu_seconds(pid) < before + 0.2:  # it is at work on the page
                await asyncio.sleep(0.01)
            os.kill(pid, signal.SIGKILL)
            return await reading

        failure = loop.run(killed())
        assert isinstance(failure, PageFailure)
        assert failure.died and not failure.permanent and "SIGKILL" in failure.reason
        assert isinstance(loop.run(engine.read(text_page())), PageText)

    def test_a_process_that_died_while_idle_costs_nothing(self, engine: CpuEngine, loop: asyncio.Runner) -> None:
        (pid,) = engine.processes
        gone = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        select.select([gone], [], [], 30)
        os.close(gone)
        assert isinstance(loop.run(engine.read(text_page())), PageText)

    def test_a_cancelled_read_frees_its_process(self, engine: CpuEngine, loop: asyncio.Runner) -> None:
        async def cancelled() -> PageText | PageFailure:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(engine.read(busy_page()), 0.2)
            return await engine.read(text_page())

        assert isinstance(loop.run(cancelled()), PageText)

    def test_pixels_that_the_models_choke_on_are_a_failure_with_its_reason(
        self, engine: CpuEngine, loop: asyncio.Runner
    ) -> None:
        four_channels = PageImage(np.zeros((50, 50, 5), np.uint8), 50, 50, 1.0)
        failure = loop.run(engine.read(four_channels))
        assert isinstance(failure, PageFailure)
        assert "error" in failure.reason and not failure.died
        assert isinstance(loop.run(engine.read(text_page())), PageText)


def test_a_hanging_process_is_ended_in_time() -> None:
    async def hung() -> tuple[PageText | PageFailure, tuple[int, ...]]:
        engine = CpuEngine(workers=1, page_timeout=0.5)
        await engine.start()
        (pid,) = engine.processes
        os.kill(pid, signal.SIGSTOP)
        answer = await engine.read(text_page())
        left = engine.processes
        await engine.close()
        return answer, left

    failure, left = asyncio.run(hung())
    assert isinstance(failure, PageFailure)
    assert failure.died and "0.5 s" in failure.reason
    assert left == ()


def test_processes_are_started_as_pages_need_them() -> None:
    async def counts() -> list[int]:
        engine = CpuEngine(workers=2, page_timeout=280)
        await engine.start()
        seen = [len(engine.processes)]
        for together in (1, 1, 2):
            await asyncio.gather(*(engine.read(blank(20, 20)) for _ in range(together)))
            seen.append(len(engine.processes))
        await engine.close()
        return seen

    assert asyncio.run(counts()) == [1, 1, 1, 2]


def test_a_process_that_cannot_be_replaced_loses_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def lost() -> None:
        engine = CpuEngine(workers=1, page_timeout=280)
        await engine.start()
        os.kill(engine.processes[0], signal.SIGKILL)
        monkeypatch.setattr(cpu_process.sys, "executable", str(tmp_path / "python"))
        (tmp_path / "python").write_text("#!/bin/sh\nexit 3\n")
        (tmp_path / "python").chmod(0o755)
        with pytest.raises(errors.EngineLost, match="exit status 3"):
            while True:  # until the kernel has let the process go
                await engine.read(text_page())
        monkeypatch.undo()
        await engine.start()
        assert isinstance(await engine.read(text_page()), PageText)
        await engine.close()

    asyncio.run(lost())


def test_missing_models_are_named_before_anything_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "rapidocr").mkdir()
    (tmp_path / "rapidocr" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    engine = CpuEngine(workers=1, page_timeout=280)
    with pytest.raises(EngineUnusable, match=r"PP-OCRv6_det_small.onnx is missing") as error:
        asyncio.run(engine.start())
    assert "pip install" in error.value.advice
    assert engine.processes == ()


def test_the_reading_processes_die_with_the_daemon() -> None:
    program = (
        "import asyncio\n"
        "from inboxd.engines.cpu import CpuEngine\n"
        "async def main():\n"
        "    engine = CpuEngine(1, 280)\n"
        "    await engine.start()\n"
        "    print(*engine.processes, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        reader = os.pidfd_open(int(daemon.stdout.readline()))
        daemon.kill()
    ended, _, _ = select.select([reader], [], [], 30)
    os.close(reader)
    assert ended


def test_it_works_without_a_network_and_never_asks_for_one() -> None:
    program = (
        "import sys, os\n"
        "def refuse(event, args):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo'): os._exit(9)\n"
        "sys.addaudithook(refuse)\n"
        "from inboxd.engines.cpu_reader import PageReader\n"
        "PageReader()\n"
    )
    alone = ["unshare", "--map-root-user", "--net"] if shutil.which("unshare") else []
    if alone and subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        alone = []  # the kernel here grants no namespaces; the hook alone must do
    subprocess.run([*alone, sys.executable, "-c", program], check=True, timeout=120)


def busy_page() -> PageImage:
    """A full page: seconds of work."""
    picture = cv2.imread(str(corpus.FOLDER / "en_report.png"), cv2.IMREAD_COLOR_RGB)
    assert picture is not None
    return page(picture)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
