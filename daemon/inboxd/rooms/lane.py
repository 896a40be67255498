"""The settling files of one inbox, and whose turn it is to be looked at. No I/O; times are monotonic seconds."""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict, deque
from collections.abc import Iterator

from inboxd.core.settling import FIRST_PAUSE, LONGEST_PAUSE, Pace, Quiet
from inboxd.model import FileId, Gone, Sighting, Signature

NEWEST_EVERY = 4
"""Of so many files taken, one is the newest: a file that is dropped behind 100,000 others need not wait for them."""
_REMEMBERED = 1000  # files taken, to notice those that change soon afterwards
_SOON = 60.0  # seconds; later a change is a new version, and no sign that we were too quick


class Slot:
    """A file that settles; there may be 100,000, so it is small."""

    __slots__ = ("deferred", "file", "is_busy", "last_sha256", "path", "pause", "reason", "signature", "since")

    def __init__(self, file: FileId, path: bytes, signature: Signature, now: float) -> None:
        self.file = file
        self.path = path
        self.signature = signature
        self.since = now
        self.pause = 0.0
        self.reason = ""  # what it waits for, as the ledger has it
        self.last_sha256 = ""
        self.is_busy = False  # a look at it is under way
        self.deferred: Sighting | Gone | None = None  # what was told of it meanwhile

    @property
    def quiet(self) -> Quiet:
        return Quiet(self.signature, self.since, self.pause)

    @quiet.setter
    def quiet(self, quiet: Quiet) -> None:
        self.signature, self.since, self.pause = quiet.signature, quiet.since, quiet.pause


class Lane:
    """Keeps the slots of one inbox in the order in which they are due."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._slots: dict[bytes, Slot] = {}
        self._fresh: deque[Slot] = deque()  # never looked at, in the order of arrival
        self._later: list[tuple[float, int, Slot]] = []  # a heap: when each is looked at again
        self._due: deque[Slot] = deque()
        self._numbers = itertools.count()
        self._taken = 0
        self._accepted: OrderedDict[bytes, tuple[float, Signature]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._slots)

    def get(self, path: bytes) -> Slot | None:
        """The slot of a path that settles."""
        return self._slots.get(path)

    def add(self, file: FileId, path: bytes, signature: Signature, now: float) -> None:
        """A file was seen, or was seen to have changed: its time to settle begins."""
        # A slot that the path had before stays in its queue, and is passed over there.
        slot = self._slots[path] = Slot(file, path, signature, now)
        self._fresh.append(slot)

    def drop(self, slot: Slot) -> None:
        """It settles no more."""
        if self._slots.get(slot.path) is slot:
            del self._slots[slot.path]

    def again(self, slot: Slot, at: float) -> None:
        """Look at it again at a time."""
        heapq.heappush(self._later, (at, next(self._numbers), slot))

    def again_soon(self, slot: Slot, now: float) -> None:
        """Look at it again after a pause that grows each time."""
        slot.pause = min(max(2 * slot.pause, FIRST_PAUSE), LONGEST_PAUSE)
        self.again(slot, now + slot.pause)

    def give_back(self, slot: Slot) -> None:
        """It could not be taken for a reason that is not its own: it is the next."""
        self._due.appendleft(slot)

    def next(self, now: float) -> Slot | None:
        """The file to look at now; it leaves its queue."""
        self._ripen(now)
        while self._due:
            self._taken += 1
            slot = self._due.pop() if self._taken % NEWEST_EVERY == 0 else self._due.popleft()
            if self._slots.get(slot.path) is slot:
                return slot
        return None

    def next_at(self) -> float | None:
        """When there will be a file to look at; None when none settles."""
        times = [slot.since + self.pace.settle for slot in itertools.islice(self._fresh, 1)]
        times += [at for at, _, _ in self._later[:1]]
        return 0.0 if self._due else min(times, default=None)

    def accept(self, slot: Slot, signature: Signature, now: float) -> None:
        """The file was thought complete, and taken."""
        self._accepted[slot.path] = (now, signature)
        self._accepted.move_to_end(slot.path)
        if len(self._accepted) > _REMEMBERED:
            self._accepted.popitem(last=False)

    def was_too_quick(self, path: bytes, signature: Signature, now: float) -> bool:
        """Whether a file that was taken has grown or shrunk since: its writer was not done."""
        at, taken = self._accepted.pop(path, (0.0, signature))
        return taken.inode == signature.inode and taken.size != signature.size and now - at < _SOON

    def slow_down(self) -> bool:
        """Wait longer from now on; False where we do already."""
        slower = self.pace.slower()
        if slower == self.pace:
            return False
        self.pace = slower
        return True

    def _ripen(self, now: float) -> None:
        while self._fresh and self._fresh[0].since + self.pace.settle <= now:
            self._due.append(self._fresh.popleft())
        for slot in self._ripe(now):
            self._due.appendleft(slot)

    def _ripe(self, now: float) -> Iterator[Slot]:
        while self._later and self._later[0][0] <= now:
            yield heapq.heappop(self._later)[2]
