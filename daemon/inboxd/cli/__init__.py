"""The command line: one module a verb; `main` turns whatever happens into words on stderr and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from inboxd.core.showing import one_line
from inboxd.errors import Exit, InboxdError

_INTERRUPTED = 130  # as a shell reports SIGINT
_READER_GONE = 141  # as a shell reports SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; `arguments` default to the process's own. Returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        _speak_utf8(stream)
    try:
        code = _carry_out(arguments)
        sys.stdout.flush()
    except InboxdError as error:
        _complain(f"inboxd: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        return _reader_gone()
    return code


def _carry_out(arguments: Sequence[str] | None) -> int:
    from inboxd.cli.app import app

    try:
        return app.main(arguments and list(arguments), prog_name="inboxd", standalone_mode=False) or Exit.OK
    except click.UsageError as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            _complain(error.format_message())
        else:
            usage = f"{error.ctx.get_usage()}\nTry: {error.ctx.command_path} --help\n" if error.ctx is not None else ""
            _complain(f"{usage}inboxd: {error.format_message()}")
        return Exit.USAGE
    except click.Abort as abort:  # Ctrl-C, or the end of the input at a prompt
        return Exit.FAILED if isinstance(abort.__cause__, EOFError) else _INTERRUPTED
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):  # which click answers with 1
            return _reader_gone()
        raise


def _complain(text: str) -> None:
    print("\n".join(map(one_line, text.split("\n"))), file=sys.stderr)


def _reader_gone() -> int:
    """Nobody reads our output any more (`inboxd files | head`): leave quietly, also at interpreter exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return _READER_GONE


def _speak_utf8(stream: object) -> None:
    """Pipes and files get UTF-8 whatever the locale; a terminal keeps its own and shows the rest escaped."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and stream is not None:
        terminal = getattr(stream, "isatty", lambda: False)()
        reconfigure(encoding=None if terminal else "utf-8", errors="backslashreplace")
