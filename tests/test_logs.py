"""One event, one line; whatever is in it, and wherever it goes."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from inboxd import logs

HOSTILE = "a\nlevel=error\x1b[31m\u202e\x9b2J\udcff"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers, root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def test_a_line_is_time_level_event_and_keys() -> None:
    out = io.StringIO()
    logs.configure("info", out)
    structlog.get_logger("inboxd.rooms.intake").info("file ready", file=7, path=b"caf\xe9.pdf", seconds=1.5, why=None)
    line = out.getvalue()
    assert re.fullmatch(r"time=\S+Z level=info event=\"file ready\" file=7 .*\n", line)
    assert line.endswith('path="caf\\\\xe9.pdf" seconds=1.5 why=- at=rooms.intake\n')


def test_hostile_text_stays_one_line_everywhere() -> None:
    for out, as_json in ((io.StringIO(), False), (io.StringIO(), True), (Terminal(), False)):
        logs.configure("info", out, json=as_json)
        structlog.get_logger(HOSTILE).info(HOSTILE, path=Path("/in") / HOSTILE, reason=HOSTILE)
        text = out.getvalue()
        assert text.count("\n") == 1
        text.encode()
        for bad in ("\x1b[31m", "\u202e", "\x9b"):
            assert bad not in text
        assert not re.search(r" level=error ", text)


def test_json_is_an_object_a_line() -> None:
    out = io.StringIO()
    logs.configure("info", out, json=True)
    structlog.get_logger().info("read", pages=3, seconds=0.25, path=Path("/a b"), ok=True)
    told = json.loads(out.getvalue())
    assert told.pop("time").endswith("Z")
    assert told == {"level": "info", "event": "read", "pages": 3, "seconds": 0.25, "path": "/a b", "ok": True}


def test_levels_below_the_chosen_one_are_silent() -> None:
    out = io.StringIO()
    logs.configure("warning", out)
    structlog.get_logger().info("no")
    structlog.get_logger().warning("yes")
    assert "no" not in out.getvalue()
    assert "event=yes" in out.getvalue()


def test_bound_ids_are_on_every_line() -> None:
    out = io.StringIO()
    logs.configure("info", out)
    with structlog.contextvars.bound_contextvars(file=3, page=9):
        structlog.get_logger().info("rendered")
    assert "file=3" in out.getvalue()
    assert "page=9" in out.getvalue()


def test_an_exception_is_one_line_in_a_file_and_readable_on_a_terminal() -> None:
    file, terminal = io.StringIO(), Terminal()
    for out in (file, terminal):
        logs.configure("info", out)
        try:
            raise ValueError("\x1b]0;gotcha\x07")
        except ValueError:
            structlog.get_logger().exception("room died", room="intake")
    assert file.getvalue().count("\n") == 1
    assert "level=error" in file.getvalue()
    assert "Traceback" in file.getvalue()
    assert terminal.getvalue().count("\n") > 3
    assert "\x1b]0" not in terminal.getvalue()


def test_other_packages_are_heard_from_warning_on() -> None:
    out = io.StringIO()
    logging.getLogger().handlers = []  # pytest's own trips over bad records
    logs.configure("info", out)
    logging.getLogger("watchdog.observers").info("chatter")
    logging.getLogger("watchdog.observers").warning("queue of %d overflowed", 7)
    logging.getLogger("apscheduler").warning("bad %d", "format")  # its own defect must not be ours
    assert "chatter" not in out.getvalue()
    assert 'event="queue of 7 overflowed" at=watchdog.observers' in out.getvalue()


def test_warnings_come_through_the_log() -> None:
    out = io.StringIO()
    logs.configure("info", out)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn("old API", DeprecationWarning, stacklevel=1)
    assert "old API" in out.getvalue()


def test_a_reader_that_went_away_stops_no_work() -> None:
    out = io.StringIO()
    logs.configure("info", out)
    out.close()
    structlog.get_logger().info("still here")


def test_configuring_twice_does_not_double_lines() -> None:
    out = io.StringIO()
    logs.configure("info", out)
    logs.configure("info", out)
    logging.getLogger("x").warning("once")
    assert out.getvalue().count("once") == 1


SPEAK = (
    "from inboxd import logs; import structlog; logs.configure('info'); structlog.get_logger('inboxd.x').{}('hello')"
)


@pytest.mark.parametrize(("method", "prefix"), [("info", "<6>"), ("warning", "<4>"), ("error", "<3>")])
def test_the_journal_gets_priorities_and_no_time(tmp_path: Path, method: str, prefix: str) -> None:
    with (tmp_path / "journal").open("w+") as journal:
        status = os.fstat(journal.fileno())
        env = {**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        subprocess.run([sys.executable, "-c", SPEAK.format(method)], stderr=journal, env=env, check=True)
        journal.seek(0)
        assert journal.read() == f"{prefix}level={method} event=hello at=x\n"


def test_a_pipe_that_is_not_the_journal_gets_no_prefix() -> None:
    env = {**os.environ, "JOURNAL_STREAM": "1:2"}  # inherited from the service that started us
    done = subprocess.run(
        [sys.executable, "-c", SPEAK.format("info")], capture_output=True, text=True, env=env, check=True
    )
    assert done.stderr.startswith("time=")
