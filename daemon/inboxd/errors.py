"""Every error a person can meet: what happened, what to do next, and the exit code that says so to a script."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of `inboxd`; the ones above 2 follow sysexits.h."""

    OK = 0
    FAILED = 1  # the command was understood and could not be carried out
    USAGE = 64  # the command line was not understood
    SOFTWARE = 70  # a room died of a defect: systemd restarts, the log has the traceback
    RECYCLE = 75  # planned restart: systemd starts the next life at once
    CONFIG = 78  # a setting or the machine is wrong: restarting would not help


class InboxdError(Exception):
    """An error meant for a person: `what` happened, and `advice` on what to do next."""

    exit_code = Exit.FAILED

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.what}\n{self.advice}" if self.advice else self.what


class UsageError(InboxdError):
    """The command line asks for something that does not exist or cannot be."""

    exit_code = Exit.USAGE


class ConfigError(InboxdError):
    """A setting is unknown, malformed or impossible; `what` names it."""

    exit_code = Exit.CONFIG


class LedgerError(InboxdError):
    """The ledger cannot be opened: newer than this program, corrupt, or on a network mount."""

    exit_code = Exit.CONFIG


class LedgerBusy(LedgerError):
    """Another daemon owns this ledger; `what` says which."""

    exit_code = Exit.CONFIG


class LedgerLost(InboxdError):
    """The ledger could no longer be written while it was in use: I/O error, damage, or a disk that stayed full."""

    exit_code = Exit.SOFTWARE


class RenderUnusable(InboxdError):
    """No render process can be started: a broken installation, or a machine without memory to spare."""

    exit_code = Exit.SOFTWARE


class EngineUnusable(InboxdError):
    """The engine cannot start here: package, model, memory or GPU is missing; `what` names the cause."""

    exit_code = Exit.CONFIG


class EngineLost(InboxdError):
    """The engine died: no page in flight was read, and it must be started again."""

    exit_code = Exit.SOFTWARE


class Defect(InboxdError):
    """A part of the daemon died of what nobody foresaw; the log has the traceback."""

    exit_code = Exit.SOFTWARE
