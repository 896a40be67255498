"""Chores run by the clock; one that fails is not passed over in silence."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from inboxd.chores import Chores
from inboxd.config import Health, Settings
from inboxd.errors import Exit
from inboxd.ledger import runs, upkeep
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.rooms.spool import Spool


class Failing:
    """A checkup that fails at its third call."""

    def __init__(self) -> None:
        self.calls = 0

    async def check(self) -> None:
        self.calls += 1
        if self.calls == 3:
            raise RuntimeError("the third")


class NoRescans:
    """An inbox that nobody should ask to scan."""

    def rescan(self, inbox: object = None) -> None:
        raise AssertionError(inbox)


def chores(folder: Path, ledger: Ledger, checkup: Failing, ended: list[tuple[Exit, str]]) -> Chores:
    return Chores(
        Settings(state=str(folder), health=Health(interval=0.01)),
        ledger,
        lambda: Reader(folder / "ledger.sqlite"),
        NoRescans(),  # type: ignore[arg-type]
        Spool(folder / "spool"),
        checkup.check,
        lambda code, why: ended.append((code, why)),
    )


def test_a_chore_that_fails_ends_the_room(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.sqlite")
    checkup = Failing()
    with pytest.raises(ExceptionGroup) as raised:
        asyncio.run(chores(tmp_path, ledger, checkup, []).run(asyncio.Event()))
    ledger.close()
    assert [str(error) for error in raised.value.exceptions] == ["the third"]
    assert checkup.calls == 3


def test_a_recycle_is_noticed_if_it_is_asked_for_in_this_life(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.sqlite")
    ended: list[tuple[Exit, str]] = []
    ledger.write_now(upkeep.ask_recycle, "anna", now=1e9)

    async def live() -> None:
        room = chores(tmp_path, ledger, Failing(), ended)
        await room.notice()
        await room.notice()
        assert ended == []
        await ledger.write(upkeep.ask_recycle, "berta", now=2e9)
        await room.notice()

    asyncio.run(live())
    ledger.close()
    assert ended == [(Exit.RECYCLE, "asked for by berta at 2033-05-18 03:33:20.000 UTC")]


def test_all_that_is_old_is_forgotten_soon_after_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inboxd.chores.PRUNE_S", 0.0)
    monkeypatch.setattr(runs.prune, "__kwdefaults__", {"limit": 2})
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        for number in range(5):
            ledger.write_now(runs.pause, bool(number % 2 == 0), now=1e9 + number)  # an event each
        stop = asyncio.Event()

        async def live() -> None:
            checkup = Failing()
            checkup.calls = 3  # and never fails
            room = asyncio.create_task(chores(tmp_path, ledger, checkup, []).run(stop))
            with Reader(tmp_path / "ledger.sqlite") as reader:
                while reader.events():
                    await asyncio.sleep(0.01)
            stop.set()
            await room

        asyncio.run(live())
