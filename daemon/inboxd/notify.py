"""What systemd is told of us: sd_notify(3) over its datagram socket, and the watchdog's allowance."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping

import structlog

from inboxd.core.showing import one_line

log = structlog.get_logger(__name__)

PATIENCE_S = 2.0
"""How long a message that systemd waits for may wait itself, when systemd is too busy to take it."""


class Notifier:
    """Speaks to the service manager; does nothing where there is none.

    A message that can't be delivered is logged and dropped: the daemon's work never depends on it. Those without which
    systemd would end the daemon block it for PATIENCE_S at most; the others come again.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ, pid: int | None = None) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._said = ""
        meant_for_us = int(environ.get("WATCHDOG_PID") or 0) in (0, pid or os.getpid())
        usec = int(environ.get("WATCHDOG_USEC") or 0) if meant_for_us else 0
        self.watchdog_s: float | None = usec / 1e6 if usec and self._address else None

    def ready(self, status: str = "") -> None:
        """Start-up, or a reload, is over."""
        self._send("READY=1", *self._status(status), patience_s=PATIENCE_S)

    def status(self, text: str) -> None:
        """One line for `systemctl status`; repeated lines are not sent again."""
        self._send(*self._status(text))

    def alive(self) -> None:
        """Feed the watchdog."""
        self._send("WATCHDOG=1")

    def reloading(self) -> None:
        """The configuration is being read again; `ready` ends it."""
        # The timestamp is what Type=notify-reload of systemd 253 asks for; older ones ignore it.
        stamp = f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"
        self._send("RELOADING=1", stamp, patience_s=PATIENCE_S)

    def stopping(self, status: str = "") -> None:
        """Draining has begun."""
        self._send("STOPPING=1", *self._status(status), patience_s=PATIENCE_S)

    def extend(self, seconds: float) -> None:
        """Ask for this much more time, from now, for the start or the stop in progress."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}", patience_s=PATIENCE_S)

    def _status(self, text: str) -> tuple[str, ...]:
        line = one_line(" ".join(text.split()))
        if not line or line == self._said:
            return ()
        self._said = line
        return (f"STATUS={line}",)

    def _send(self, *lines: str, patience_s: float = 0.0) -> None:
        if not self._address or not lines:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as door:
                door.settimeout(patience_s)
                door.sendto("\n".join(lines).encode("utf-8", "backslashreplace"), self._address)
        except OSError as error:
            log.warning("cannot notify systemd", error=str(error))
