"""Logs: one event a line, key=value for journald and files, JSON on request, short and coloured on a terminal."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, TextIO

import structlog

from inboxd.core.naming import display
from inboxd.core.showing import one_line, to_json

_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "31;1"}
_BARE = re.compile(r"[^\s\"=\\]+")


def configure(level: str, stream: TextIO | None = None, json: bool = False) -> None:
    """Send every log of the process, the standard library's too, as single lines to `stream`.

    Where `stream` is the journal, lines carry its priority prefix and no time of their own. Loggers of other
    packages are heard from WARNING on. Values bound with `structlog.contextvars` are on every line.

    Args:
        level: debug, info, warning or error.
        stream: None is whatever `sys.stderr` is at each write, so that a progress bar may stand in for it.
        json: one JSON object a line.
    """
    out = stream or sys.stderr
    journal = _is_journal(out)
    render: Callable[[dict[str, Any]], str]
    if json:
        render = _json
    elif out.isatty() and not journal:
        render = _console if "NO_COLOR" not in os.environ else _plain_console
    else:
        render = _logfmt

    def line(_logger: Any, method: str, event: structlog.typing.EventDict) -> str:
        severity = "error" if method == "exception" else method
        stamp = {} if journal else {"time": datetime.now(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"}
        text = render({**stamp, "level": severity, "event": event.pop("event"), **event})
        return f"<{_PRIORITIES[severity]}>{text}" if journal else text

    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, _name, structlog.processors.format_exc_info, line],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *names: _Lines(stream, *names),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, _Bridge)] + [_Bridge()]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)


def set_level(level: str) -> None:
    """Hear our own loggers from this level on."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()])
    )


def _is_journal(stream: TextIO) -> bool:
    """Whether systemd connected this very stream to the journal; the variable alone is inherited by children."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:  # not a real file: a test's buffer
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


class _Lines:
    """Where finished lines go; whole lines, whichever thread they come from."""

    _lock = threading.Lock()

    def __init__(self, stream: TextIO | None, name: str = "") -> None:
        self._stream = stream
        self.name = name.removeprefix("inboxd.")

    def msg(self, line: str) -> None:
        stream = self._stream or sys.stderr
        with self._lock:
            try:
                stream.write(line + "\n")
                stream.flush()
            except (OSError, ValueError):
                # The reader of our log went away: there is nowhere left to say so, and pages still want reading.
                return

    debug = info = warning = error = critical = exception = msg


class _Bridge(logging.Handler):
    """Carries the standard library's records over."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            self.handleError(record)
            return
        structlog.get_logger(record.name).log(record.levelno, message, exc_info=record.exc_info)


def _name(logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    if logger.name:
        event["at"] = logger.name
    return event


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return display(value)
    if isinstance(value, PurePath):
        return display(os.fsencode(value))
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return "-" if value is None else str(value)


def _logfmt(event: dict[str, Any]) -> str:
    return " ".join(f"{key}={_quoted(_text(value))}" for key, value in event.items())


def _quoted(text: str) -> str:
    return text if _BARE.fullmatch(text) and one_line(text) == text else to_json(text)


def _json(event: dict[str, Any]) -> str:
    return to_json(
        {key: value if isinstance(value, bool | int | float | None) else _text(value) for key, value in event.items()}
    )


def _plain_console(event: dict[str, Any]) -> str:
    clock = datetime.fromisoformat(event.pop("time")).astimezone().strftime("%H:%M:%S")
    head = f"{clock} {event.pop('level'):<8}{one_line(_text(event.pop('event')))}"
    # A traceback is for reading: it keeps its lines, each of them made safe.
    trace = "".join("\n  " + one_line(line) for line in _text(event.pop("exception", "")).split("\n") if line)
    return f"{head}  {_logfmt(event)}".rstrip() + trace


def _console(event: dict[str, Any]) -> str:
    colour = _COLOURS[event["level"]]
    stamp, level, rest = _plain_console(event).split(" ", 2)
    return f"\x1b[2m{stamp}\x1b[0m \x1b[{colour}m{level}\x1b[0m {rest}"
