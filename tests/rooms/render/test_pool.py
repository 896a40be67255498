"""Renderers crash, hang, starve and are killed; it costs the page in their hands, and the others go on."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.rooms.render.hostile import children, endless, numbered, processor_time, voracious, wait_for

from inboxd import config
from inboxd.errors import RenderUnusable
from inboxd.model import Kind, Opened, PageFailure, PageImage, Refused
from inboxd.rooms.render import crew
from inboxd.rooms.render.pool import RenderPool

EDGE = 400
TIMEOUT = 6
"""Seconds, in which a good page must be drawn on whatever machine: a page that hangs is waited for so long."""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return written(tmp_path, "good.pdf", numbered(20))


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return written(tmp_path, "endless.pdf", endless())


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@asynccontextmanager
async def running(workers: int = 1, edge: int = EDGE, grid: int = 1, **settings: float) -> AsyncIterator[RenderPool]:
    pool = RenderPool(config.Render(**settings), workers, edge, grid)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.close()
        assert not children()


async def until(condition: Callable[[], bool], what: str) -> None:
    """Let the loop run until it holds."""
    await asyncio.to_thread(wait_for, condition, what)


async def is_page(pool: RenderPool, path: Path, number: int) -> bool:
    image = await pool.render(path, Kind.PDF, number)
    assert isinstance(image, PageImage), image
    return (image.width, image.height) == (EDGE - number, EDGE)


def test_a_document_is_opened_and_its_pages_rendered(good: Path) -> None:
    async def main() -> None:
        async with running() as pool:
            assert await pool.open(good, Kind.PDF) == Opened(20)
            for number in (1, 20, 7):
                assert await is_page(pool, good, number)
            assert pool.deaths == 0

    asyncio.run(main())


def test_pages_are_padded_to_the_grid(good: Path) -> None:
    async def main() -> None:
        async with running(grid=28) as pool:
            image = await pool.render(good, Kind.PDF, 5)
            assert isinstance(image, PageImage)
            assert (image.width, image.height) == (395, 400)
            assert image.pixels.shape == (420, 420, 3)
            assert image.pixels[400:].min() == 255
            assert image.pixels[:, 395:].min() == 255
            assert 0 < image.ink < 0.1

    asyncio.run(main())


def test_many_callers_share_few_renderers_and_each_gets_its_own_page(good: Path) -> None:
    async def main() -> None:
        async with running(workers=2) as pool:
            assert all(await asyncio.gather(*(is_page(pool, good, number) for number in range(1, 21))))

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------ deaths


@pytest.mark.parametrize(
    ("blow", "words"),
    [
        (signal.SIGKILL, "the renderer was killed"),
        (signal.SIGSEGV, "the renderer crashed (SIGSEGV)"),
        (signal.SIGABRT, "the renderer crashed (SIGABRT)"),
    ],
)
def test_a_renderer_that_dies_costs_its_own_page_only(good: Path, bad: Path, blow: signal.Signals, words: str) -> None:
    async def main() -> None:
        async with running(workers=2) as pool:
            victim = asyncio.create_task(pool.render(bad, Kind.PDF, 1))
            await asyncio.sleep(0)
            pids = children()
            others = asyncio.create_task(all_pages(pool, good))
            busy = await the_busy_one(pids, others)
            os.kill(busy, blow)
            failure = await victim
            assert isinstance(failure, PageFailure)
            assert failure.died
            assert not failure.permanent
            assert words in failure.reason
            assert failure.reason.endswith("while rendering page 1")
            assert await others
            assert pool.deaths == 1
            assert await all_pages(pool, good)
            await until(lambda: len(children()) == 2, "the dead renderer's successor")
            assert busy not in children()

    asyncio.run(main())


async def all_pages(pool: RenderPool, path: Path) -> bool:
    return all([await is_page(pool, path, number) for number in range(1, 21)])


async def the_busy_one(pids: set[int], others: Awaitable[object]) -> int:
    """Which of `pids` works on once the others have nothing left to do."""
    await others
    before = {pid: processor_time(pid) for pid in pids}
    await until(lambda: any(processor_time(pid) > before[pid] + 20 for pid in pids), "a renderer to work")
    return max(pids, key=lambda pid: processor_time(pid) - before[pid])


def test_a_page_that_hangs_is_ended_after_its_time(good: Path, bad: Path) -> None:
    async def main() -> None:
        async with running(workers=2, page_timeout=TIMEOUT) as pool:
            hanging, fine = await asyncio.gather(pool.render(bad, Kind.PDF, 1), all_pages(pool, good))
            assert hanging == PageFailure(
                f"the renderer gave no answer within {TIMEOUT} s while rendering page 1", died=True
            )
            assert fine
            assert await all_pages(pool, good)

    asyncio.run(main())


def test_a_page_that_needs_too_much_memory_is_ended(tmp_path: Path, good: Path) -> None:
    greedy = written(tmp_path, "greedy.png", voracious(20_000))

    async def main() -> None:
        async with running(memory_bytes=256 * 1024**2, max_pixels=10**9) as pool:
            assert await pool.open(greedy, Kind.PNG) == Opened(1)
            failure = await pool.render(greedy, Kind.PNG, 1)
            assert isinstance(failure, PageFailure)
            assert failure.died
            assert failure.reason == (
                "the renderer ran out of memory (memory_bytes = 268,435,456) while rendering page 1"
            )
            assert await all_pages(pool, good)

    asyncio.run(main())


def test_mupdf_running_out_of_memory_costs_the_renderer(good: Path) -> None:
    async def main() -> None:
        async with running(edge=5000, memory_bytes=32 * 1024**2) as pool:  # the page takes 75 MB
            failure = await pool.render(good, Kind.PDF, 1)
            assert isinstance(failure, PageFailure)
            assert failure.died
            assert "memory" in failure.reason

    asyncio.run(main())


def test_a_document_that_kills_the_renderer_is_refused_as_such(good: Path) -> None:
    async def main() -> None:
        async with running(page_timeout=1) as pool:
            (pid,) = children()
            os.kill(pid, signal.SIGSTOP)
            refused = await pool.open(good, Kind.PDF)
            assert refused == Refused("the renderer gave no answer within 1 s while opening it", died=True)

    asyncio.run(main())


def test_a_renderer_that_dies_idle_is_nobodys_fault(good: Path) -> None:
    async def main() -> None:
        async with running(workers=2) as pool:
            before = children()
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            await until(lambda: not children() & before, "the renderers to die")
            assert await all_pages(pool, good)
            assert pool.deaths == 2

    asyncio.run(main())


def test_a_render_that_nobody_waits_for_any_more_is_thrown_away(good: Path, bad: Path) -> None:
    async def main() -> None:
        async with running(page_timeout=TIMEOUT) as pool:
            unwanted = [asyncio.create_task(pool.render(path, Kind.PDF, 1)) for path in (good, good, bad, good)]
            await asyncio.sleep(0)
            for task in unwanted:
                task.cancel()
            assert await all_pages(pool, good)
            assert all(task.cancelled() for task in unwanted)

    asyncio.run(main())


def test_closing_lets_nobody_wait_for_ever(good: Path, bad: Path) -> None:
    async def main() -> None:
        async with running() as pool:
            waiting = [asyncio.create_task(pool.render(path, Kind.PDF, 1)) for path in (bad, good, good, good)]
            await asyncio.sleep(0)
        done, pending = await asyncio.wait(waiting, timeout=60)
        assert not pending
        assert all(task.cancelled() for task in done)

    asyncio.run(main())


def test_a_page_that_waits_behind_one_that_kills_is_rendered_all_the_same(good: Path, bad: Path) -> None:
    async def main() -> None:
        async with running(page_timeout=TIMEOUT) as pool:
            deadly, *others = await asyncio.gather(
                pool.render(bad, Kind.PDF, 1), *(is_page(pool, good, number) for number in range(1, 6))
            )
            assert isinstance(deadly, PageFailure)
            assert deadly.died
            assert all(others)
            assert pool.deaths == 1

    asyncio.run(main())


def test_the_reason_is_heard_also_when_another_page_waits_behind_it(tmp_path: Path, good: Path) -> None:
    greedy = written(tmp_path, "greedy.png", voracious(20_000))

    async def main() -> None:
        async with running(memory_bytes=256 * 1024**2, max_pixels=10**9) as pool:
            victim = asyncio.create_task(pool.render(greedy, Kind.PNG, 1))
            behind = asyncio.create_task(is_page(pool, good, 1))
            await asyncio.sleep(0)
            wait_for(lambda: not children(), "its end")  # on the loop, which hears of it only then
            failure = await victim
            assert isinstance(failure, PageFailure)
            assert "ran out of memory" in failure.reason
            assert await behind

    asyncio.run(main())


def test_a_page_is_blamed_also_when_its_renderer_is_dead_by_the_time_of_the_next(good: Path, bad: Path) -> None:
    async def main() -> None:
        async with running(page_timeout=20) as pool:
            victim = asyncio.create_task(pool.render(bad, Kind.PDF, 1))
            await asyncio.sleep(0)
            (pid,) = children()
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not children(), "its end")  # on the loop, which can't have noticed
            assert await is_page(pool, good, 1)
            failure = await victim
            assert isinstance(failure, PageFailure)
            assert failure.died and "was killed" in failure.reason
            assert pool.deaths == 1

    asyncio.run(main())


def test_the_daemons_signals_do_not_reach_the_renderers(good: Path) -> None:
    async def main() -> None:
        async with running() as pool:
            (pid,) = children()
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
            assert await all_pages(pool, good)
            assert children() == {pid}
            assert os.getsid(pid) != os.getsid(0)

    asyncio.run(main())


SCRIPT = """
import asyncio, sys
from pathlib import Path
from inboxd import config
from inboxd.model import Kind
from inboxd.rooms.render.pool import RenderPool

print("main", flush=True)

async def main():
    pool = RenderPool(config.Render(), 2, 400, 1)
    await pool.start()
    bad, good = map(Path, sys.argv[1:])
    await pool.render(good, Kind.PDF, 1)
    loaded = {"pymupdf", "cv2", "PIL"} & set(sys.modules)
    print("loaded", *loaded, flush=True)
    await asyncio.gather(pool.render(bad, Kind.PDF, 1), pool.render(bad, Kind.PDF, 1))

asyncio.run(main())
"""


def test_a_daemon_that_is_killed_leaves_no_renderer_and_never_held_a_decoder(good: Path, bad: Path) -> None:
    daemon = subprocess.Popen([sys.executable, "-c", SCRIPT, bad, good], stdout=subprocess.PIPE, text=True)
    assert daemon.stdout is not None
    try:
        # Once: the renderers don't run the daemon's main module.
        assert daemon.stdout.readline() == "main\n"
        assert daemon.stdout.readline() == "loaded\n"
        wait_for(lambda: len(children(daemon.pid)) == 2, "the renderers")
        renderers = children(daemon.pid)
        before = {pid: processor_time(pid) for pid in renderers}
        wait_for(lambda: all(processor_time(pid) > before[pid] + 10 for pid in renderers), "the renderers to work")
    finally:
        daemon.kill()
        rest, _ = daemon.communicate()
    assert rest == ""
    wait_for(lambda: not any(processor_time(pid) for pid in renderers), "the renderers to end")


# ------------------------------------------------------------------------------------------------ staff


def test_a_renderer_that_has_worked_long_is_relieved_without_a_gap(good: Path) -> None:
    async def main() -> None:
        async with running(workers=2, recycle_after=5) as pool:
            before = children()
            while before & children():
                assert all(await asyncio.gather(*(is_page(pool, good, number) for number in range(1, 21))))
                # By what the crew knows: one that has left takes its time to die, and is no gap and no successor.
                assert len(pool._crew._staff) == 2
                starting = [process for process in pool._crew._leaving if not process._ready.done()]
                assert len(starting) <= 2, "one successor each, however long it takes to start"
            await until(lambda: len(children()) == 2, "the relieved to leave")
            assert pool.deaths == 0

    asyncio.run(main())


def test_a_renderer_is_confined_before_it_sees_a_document() -> None:
    async def main() -> None:
        async with running():
            (pid,) = children()
            limits = Path(f"/proc/{pid}/limits").read_text()
            for name, bound in (("core file size", 0), ("open files", 64)):
                (line,) = (line for line in limits.splitlines() if line.startswith(f"Max {name}"))
                assert line.removeprefix(f"Max {name}").split()[:2] == [str(bound)] * 2
            for name in ("data size", "file size", "processes"):
                (line,) = (line for line in limits.splitlines() if line.startswith(f"Max {name}"))
                assert "unlimited" not in line
            assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) >= 800

    asyncio.run(main())


def test_pages_leave_no_file_open_and_no_memory_behind(good: Path) -> None:
    async def main() -> None:
        async with running(workers=2) as pool:
            await all_pages(pool, good)
            gc.collect()
            before = len(list(Path("/proc/self/fd").iterdir()))
            for _ in range(5):
                await all_pages(pool, good)
            gc.collect()
            assert len(list(Path("/proc/self/fd").iterdir())) == before

    asyncio.run(main())


def test_a_file_that_changes_under_its_name_is_opened_again(good: Path) -> None:
    async def main() -> None:
        async with running() as pool:
            assert await pool.open(good, Kind.PDF) == Opened(20)
            good.write_bytes(numbered(3))
            assert await pool.open(good, Kind.PDF) == Opened(3)

    asyncio.run(main())


def test_a_file_that_is_not_there_may_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with running() as pool:
            refused = await pool.open(tmp_path / "gone", Kind.PDF)
            assert refused == Refused("cannot be read from the spool: No such file or directory")
            failure = await pool.render(tmp_path / "gone", Kind.PNG, 1)
            assert failure == PageFailure("cannot be read from the spool: No such file or directory")

    asyncio.run(main())


def test_a_name_that_is_not_utf8_is_no_obstacle(tmp_path: Path, good: Path) -> None:
    odd = good.rename(tmp_path / "\udcff\udcfe\n.pdf")

    async def main() -> None:
        async with running() as pool:
            assert await pool.open(odd, Kind.PDF) == Opened(20)

    asyncio.run(main())


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "never"
    os.mkfifo(pipe)  # nobody ever writes to it

    async def main() -> None:
        async with running() as pool:
            for path in (pipe, tmp_path):
                assert isinstance(await pool.open(path, Kind.PDF), Refused)
                assert isinstance(await pool.render(path, Kind.PNG, 1), PageFailure)
            assert pool.deaths == 0

    asyncio.run(main())


def test_a_daemon_without_free_descriptors_blames_no_file(good: Path) -> None:
    async def main() -> None:
        async with running() as pool:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                refused = await pool.open(good, Kind.PDF)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert isinstance(refused, Refused)
            assert refused.died
            assert "Too many open files" in refused.reason
            assert await all_pages(pool, good)

    asyncio.run(main())


def test_without_a_renderer_the_pool_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for executable in ("/bin/false", "/nonexistent/python"):
        monkeypatch.setattr(sys, "executable", executable)
        pool = RenderPool(config.Render(), 3, EDGE, 1)
        with pytest.raises(RenderUnusable, match="no render process can be started"):
            asyncio.run(pool.start())
    assert not children()


def test_when_no_successor_can_be_started_everyone_in_line_is_told(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "START_PAUSE", 0)

    async def main() -> None:
        async with running() as pool:
            monkeypatch.setattr(sys, "executable", "/bin/false")
            (pid,) = children()
            os.kill(pid, signal.SIGKILL)
            renders = (pool.render(good, Kind.PDF, number) for number in (1, 2, 3))
            outcomes = await asyncio.gather(*renders, return_exceptions=True)
            failures = [outcome for outcome in outcomes if isinstance(outcome, PageFailure)]
            assert len(failures) <= 1  # the kill may have come while it was asked
            assert all(isinstance(outcome, RenderUnusable) for outcome in outcomes if outcome not in failures)

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------ treason

TRAITOR = """#!{python}
import json, os, socket, sys
wire = socket.socket(fileno=int(sys.argv[-2]))
wire.recv(65536)
wire.send(b'{{"type": "Ready"}}')
while wire.recv(65536):
    page = {{"type": "PageRendered", "width": 400, "height": 400, "ink": 0.5, "warnings": []}}
    {act}
"""


@pytest.mark.parametrize(
    "act",
    [
        "wire.send(b'nonsense')",
        'wire.send(b\'{"type": "DocumentOpened", "pages": 5}\')',
        'wire.send(b\'{"type": "DocumentOpened", "pages": -5}\')',
        "wire.send(json.dumps(page | {'width': 9999, 'height': 9999}).encode())",
        "wire.send(json.dumps(page | {'ink': 7}).encode())",
        "wire.send(json.dumps(page | {'width': 0}).encode())",
        'wire.send(b\'{"type": "Ready"}\')',
        "wire.send(b'[' * 60000)",
    ],
)
def test_a_renderer_that_a_file_has_taken_over_is_not_believed(
    tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    traitor = written(tmp_path, "traitor", TRAITOR.format(python=sys.executable, act=act).encode())
    traitor.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(traitor))

    async def main() -> None:
        async with running() as pool:
            before = len(list(Path("/proc/self/fd").iterdir()))
            for _ in range(2):
                failure = await pool.render(good, Kind.PDF, 1)
                assert isinstance(failure, PageFailure), failure
                assert failure.died
            assert pool.deaths == 2
            await until(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before, "files to be closed")

    asyncio.run(main())


def test_what_a_renderer_says_is_made_safe_to_show(tmp_path: Path, good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    act = r"""wire.send(json.dumps({"type": "Unfit", "reason": "\x1b[2J\n", "permanent": True}).encode())"""
    traitor = written(tmp_path, "traitor", TRAITOR.format(python=sys.executable, act=act).encode())
    traitor.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(traitor))

    async def main() -> None:
        async with running() as pool:
            assert await pool.render(good, Kind.PDF, 1) == PageFailure(r"\x1b[2J\n", permanent=True)

    asyncio.run(main())
