"""When each folder of an inbox is scanned next: soon after a change, on a timer, and never all of the time.

Times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

DEBOUNCE = 0.25
"""Seconds without another event before a changed folder is scanned."""
LONGEST_DEBOUNCE = 1.0
"""A folder that never falls quiet is scanned after so many seconds all the same."""
REST = 4.0
"""A scan is followed by a pause of so many times its own length: scanning takes a fifth of the time at most."""
FIRST_BACKOFF = 1.0
LONGEST_BACKOFF = 60.0


@dataclass(frozen=True, slots=True)
class Everything:
    """Scan the whole inbox."""


@dataclass(frozen=True, slots=True)
class Some:
    """Scan these folders, and what is new below them."""

    folders: frozenset[bytes]
    is_poll: bool


class Agenda:
    """What is to be scanned, and when. Not thread-safe."""

    def __init__(self, rescan_interval: float, poll_interval: float, now: float) -> None:
        self._rescan_interval = rescan_interval
        self._poll_interval = poll_interval
        self._changed: dict[bytes, tuple[float, float]] = {}  # first and last event not yet followed by a scan
        self._rests: dict[bytes, float] = {}  # folders that take long to scan, and until when they are left alone
        self._polled: frozenset[bytes] = frozenset()
        self._everything_at = now
        self._poll_at = now
        self._backoff = 0.0

    def change(self, folder: bytes, now: float) -> None:
        """An event told that something happened in `folder`."""
        first, _ = self._changed.get(folder, (now, now))
        self._changed[folder] = (first, now)

    def want_everything(self, now: float) -> None:
        """A person asked for a scan, or events were lost."""
        self._everything_at = min(self._everything_at, now)

    def poll(self, folders: Collection[bytes]) -> None:
        """From now on, these are the folders that have no events."""
        self._polled = frozenset(folders)

    def next_at(self) -> float:
        """When there will be something to scan."""
        times = [self._everything_at]
        if not self._backoff:
            times += [self._ripe_at(folder) for folder in self._changed]
            times += [self._poll_at] if self._polled else []
        return min(times)

    def take(self, now: float) -> Everything | Some | None:
        """What is to be scanned now; it is off the agenda."""
        if now >= self._everything_at:
            self._changed.clear()
            return Everything()
        if self._backoff:
            return None
        folders = {folder for folder in self._changed if now >= self._ripe_at(folder)}
        for folder in folders:
            del self._changed[folder]
        is_poll = bool(self._polled) and now >= self._poll_at
        if is_poll:
            folders |= self._polled
        return Some(frozenset(folders), is_poll) if folders else None

    def scanned_folder(self, folder: bytes, began: float, ended: float) -> None:
        """A folder was scanned, alone or with others."""
        rest = REST * (ended - began)
        if rest > DEBOUNCE:
            self._rests[folder] = ended + rest
        else:
            self._rests.pop(folder, None)

    def finished(self, scan: Everything | Some, began: float, ended: float) -> None:
        """A scan came to its end."""
        rest = REST * (ended - began)
        if isinstance(scan, Everything):
            self._backoff = 0.0
            self._everything_at = ended + max(self._rescan_interval, rest)
        if isinstance(scan, Everything) or scan.is_poll:
            self._poll_at = ended + max(self._poll_interval, rest)

    def failed(self, now: float) -> None:
        """The inbox could not be scanned: it is tried again, whole, after a pause that doubles each time."""
        self._backoff = min(max(2 * self._backoff, FIRST_BACKOFF), LONGEST_BACKOFF)
        self._everything_at = now + self._backoff
        self._changed.clear()

    def _ripe_at(self, folder: bytes) -> float:
        first, last = self._changed[folder]
        return max(min(last + DEBOUNCE, first + LONGEST_DEBOUNCE), self._rests.get(folder, 0.0))
