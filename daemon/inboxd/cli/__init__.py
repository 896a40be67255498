"""The command line: one module a verb; `main` turns whatever happens into words on stderr and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import shell_complete

from inboxd.core.naming import display
from inboxd.core.showing import one_line
from inboxd.errors import Exit, InboxdError

_INTERRUPTED = 130  # as a shell reports SIGINT
_READER_GONE = 141  # as a shell reports SIGPIPE
_COMPLETE = "_INBOXD_COMPLETE"  # set by a shell that wants to complete a command line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; `arguments` default to the process's own. Returns the exit code."""
    # None where the parent closed them: whoever does that wants to hear nothing.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - for as long as we live
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115 - for as long as we live
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
        _forget_output()
        return _READER_GONE
    except OSError as error:  # a disk that is full, a permission that is missing: no defect of ours
        _complain(f"inboxd: {_trouble(error)}")
        try:
            sys.stdout.flush()
        except OSError:  # it is the output that can't be written
            _forget_output()
        return Exit.FAILED
    return code


def _carry_out(arguments: Sequence[str] | None) -> int:
    """As click's own `main`, but with our exit codes."""
    from inboxd.cli.app import app

    if (shell := os.environ.get(_COMPLETE)) is not None:
        return shell_complete(app, {}, "inboxd", _COMPLETE, shell)
    try:
        with app.make_context("inboxd", list(sys.argv[1:] if arguments is None else arguments)) as context:
            return app.invoke(context) or Exit.OK
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        _complain(error.format_message())
        return Exit.USAGE
    except click.UsageError as error:
        usage = f"{error.ctx.get_usage()}\nTry: {error.ctx.command_path} --help\n" if error.ctx is not None else ""
        _complain(f"{usage}inboxd: {error.format_message()}")
        return Exit.USAGE
    except click.Abort as abort:  # Ctrl-C, or the end of the input, at a prompt
        raise KeyboardInterrupt from abort


def _complain(text: str) -> None:
    print("\n".join(map(one_line, text.split("\n"))), file=sys.stderr)


def _trouble(error: OSError) -> str:
    """What the system refused, and for which file, where it says."""
    what = error.strerror or str(error) or type(error).__name__
    return f"{what}: {display(os.fsencode(error.filename))}" if isinstance(error.filename, str | bytes) else what


def _forget_output() -> None:
    """Nobody takes our output any more (`inboxd files | head`): leave quietly, also at interpreter exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _speak_utf8(stream: object) -> None:
    """Pipes and files get UTF-8 whatever the locale; a terminal keeps its own and shows the rest escaped."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:  # a test's stand-in has none
        terminal = getattr(stream, "isatty", lambda: False)()
        reconfigure(encoding=None if terminal else "utf-8", errors="backslashreplace")
