"""What systemd is told of a life, in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from inboxd.core.lifecycle import FileState
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.ledger.rows import Counts
from inboxd.notify import Notifier
from inboxd.rooms.herald import READING, Herald, sentence


class Recorder(Notifier):
    """Keeps what would go to systemd."""

    def __init__(self) -> None:
        super().__init__({})
        self.said: list[str] = []

    def _send(self, *lines: str, patience_s: float = 0.0) -> None:
        self.said += lines


def counts(*, pages_open: int = 0, paused: bool = False, **files: int) -> Counts:
    states = dict.fromkeys(FileState, 0) | {FileState(name): count for name, count in files.items()}
    return Counts(
        files=states,
        by_inbox={},
        pages_done=7,
        pages_open=pages_open,
        pages_in_flight=min(2, pages_open),
        open=0,
        owed=0,
        undeliverable=0,
        paused=paused,
    )


def test_ready_waits_for_the_folders_and_stopping_asks_for_time(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    Ledger.open(path).close()
    looks: list[bool] = [False, False]

    def watching() -> bool:
        return looks.pop(0) if looks else True

    async def live() -> list[str]:
        notifier, stop = Recorder(), asyncio.Event()
        herald = Herald(notifier, lambda: Reader(path), lambda: "starting the engine", watching)
        telling = asyncio.create_task(herald.run(stop, 30.0))
        await _until(lambda: len(notifier.said) >= 3)
        stop.set()
        await telling
        return notifier.said

    said = asyncio.run(live())
    assert looks == []
    assert said[:2] == ["READY=1", "STATUS=starting the engine"]
    assert said[2].startswith("STATUS=starting the engine, 0 pages in flight")
    assert said[-3:] == ["STOPPING=1", "STATUS=finishing the pages in flight", "EXTEND_TIMEOUT_USEC=90000000"]


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


def test_the_status_line_tells_what_is_going_on() -> None:
    assert sentence(READING, counts(pages_open=5, settling=3, quarantined=1)) == (
        "reading, 2 pages in flight, 3 to read, 7 read, 3 files waiting, 1 quarantined"
    )
    assert sentence(READING, counts()).startswith("idle, ")
    assert sentence(READING, counts(paused=True)).startswith("paused, ")
    assert sentence("no space left", counts()).startswith("no space left, ")
