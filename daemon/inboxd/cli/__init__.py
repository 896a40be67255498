"""The command line: one module a verb; `main` turns whatever happens into words on stderr and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from inboxd.core.showing import one_line
from inboxd.errors import Exit, InboxdError

_INTERRUPTED = 130  # as a shell reports SIGINT
_READER_GONE = 141  # as a shell reports SIGPIPE
_TYPER_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; `arguments` default to the process's own. Returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        _speak_utf8(stream)
    try:
        code = _carry_out(arguments)
        sys.stdout.flush()
    except InboxdError as error:
        _complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        return _reader_gone()
    return code


def _carry_out(arguments: Sequence[str] | None) -> int:
    import typer

    from inboxd.cli.app import app

    try:
        typer.main.get_command(app).main(args=arguments and list(arguments), prog_name="inboxd")
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):  # typer answers it with a plain 1
            return _reader_gone()
        code = leaving.code if isinstance(leaving.code, int) else Exit.OK
        return Exit.USAGE if code == _TYPER_USAGE else code
    return Exit.OK


def _complain(error: InboxdError) -> None:
    print("inboxd:", "\n".join(map(one_line, str(error).split("\n"))), file=sys.stderr)


def _reader_gone() -> int:
    """Nobody reads our output any more (`inboxd files | head`): leave quietly, also at interpreter exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    return _READER_GONE


def _speak_utf8(stream: object) -> None:
    """Pipes and files get UTF-8 whatever the locale; a terminal keeps its own and shows the rest escaped."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and stream is not None:
        terminal = getattr(stream, "isatty", lambda: False)()
        reconfigure(encoding=None if terminal else "utf-8", errors="backslashreplace")
