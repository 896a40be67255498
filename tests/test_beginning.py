"""What an earlier life left, as the next one takes it up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.ledger.clerk import Clerk

from inboxd import beginning, faults
from inboxd.core.lifecycle import FileState
from inboxd.ledger import runs
from inboxd.ledger.opening import Ledger


class Killed(BaseException):
    """What nothing on the way catches."""


@pytest.mark.parametrize("killed_at", ["", "beginning.taken_up", "beginning.let_go"])
def test_what_lies_in_an_inbox_that_is_not_configured_any_more_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    def point(name: str) -> None:
        if name == killed_at:
            raise Killed

    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        clerk = Clerk(ledger)
        left = clerk.drop(b"left.pdf")
        other = clerk.inbox = clerk.do(runs.inbox, b"/srv/other")
        kept = clerk.drop(b"kept.pdf")
        spool = tmp_path / "spool"
        copies = []
        for file in (left, kept):
            ((sha256,),) = clerk.sql("SELECT sha256 FROM files WHERE id = ?", file)
            copies.append(spool / sha256[:2] / sha256)
            copies[-1].parent.mkdir(parents=True, exist_ok=True)
            copies[-1].touch()
        if killed_at:
            with monkeypatch.context() as patched, pytest.raises(Killed):
                patched.setattr(faults, "point", point)
                asyncio.run(beginning.take_up(ledger, clerk.reader, spool, clerk.start_run(), [other]))
        asyncio.run(beginning.take_up(ledger, clerk.reader, spool, clerk.start_run(), [other]))
        assert (clerk.state(left), clerk.state(kept)) == (FileState.VANISHED, FileState.READY)
        assert [copy.exists() for copy in copies] == [False, True]
