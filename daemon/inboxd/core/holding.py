"""What is tried of all that an inbox owes while it, or a folder of it, can't be written to: one file now and then.

Times are monotonic seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from inboxd.core.trouble import Reach
from inboxd.model import Due


@dataclass(frozen=True, slots=True)
class Held:
    """Left alone until then, for a reason that a person can read; after that it is probed."""

    until: float
    reason: str
    refusals: int


class Holding:
    """Remembers who refused. Not thread-safe.

    A disk that is full or away shuts the whole inbox, until any folder of it takes something. But a folder may be a
    disk of its own: what it refuses while others take theirs counts for itself alone.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._folders: dict[bytes, Held] = {}
        self._inbox: Held | None = None

    def is_shut(self, now: float) -> bool:
        """Whether the whole inbox is left alone."""
        return self._inbox is not None and now < self._inbox.until

    def is_open(self, folder: bytes) -> bool:
        """Whether nothing is known against `folder`."""
        return self._inbox is None and folder not in self._folders

    def held(self, folder: bytes, now: float) -> Held | None:
        """Until when and why nothing is tried in `folder`; None where something is."""
        known = (self._inbox, self._folders.get(folder))
        return max((held for held in known if held and now < held.until), key=lambda held: held.until, default=None)

    def choose(self, due: Sequence[Due], now: float) -> list[Due]:
        """Those of `due`, where who waited longest comes first, that are tried now: all, if nobody has refused.

        Of a folder that is probed it is one, and each time another: the cause may be a single file. Of an inbox that is
        probed it is one in all.
        """
        by_folder: dict[bytes, list[Due]] = defaultdict(list)
        for one in due:
            if self.held(one.folder, now) is None:
                by_folder[one.folder].append(one)
        chosen: list[Due] = []
        for folder, here in by_folder.items():
            known = self._folders.get(folder)
            chosen += here if known is None else [here[known.refusals % len(here)]]
        return chosen if self._inbox is None else chosen[:1]

    def refused(self, folder: bytes, reach: Reach, reason: str, now: float) -> None:
        """A file of `folder` could not be written, for a reason that concerns others too, unless `reach` is FILE."""
        if reach is Reach.FILE:
            return
        known = self._folders.get(folder)
        held = Held(now + self._every_s, reason, known.refusals + 1 if known else 1)
        self._folders[folder] = held
        if reach is Reach.INBOX and (known is None or self._inbox is not None):
            self._inbox = held

    def took(self, folder: bytes) -> None:
        """A file of `folder` was written."""
        self._folders.pop(folder, None)
        self._inbox = None
