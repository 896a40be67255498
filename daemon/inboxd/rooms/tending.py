"""The thread that looks after one inbox: a dead share may hold it for ever, and holds nothing else then."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from inboxd.config import Inbox
from inboxd.core.agenda import Agenda, Everything, Some
from inboxd.core.ignoring import Filter
from inboxd.core.naming import display
from inboxd.ledger.reading import Reader
from inboxd.model import InboxId
from inboxd.rooms.comparing import Found
from inboxd.rooms.folders import Folder
from inboxd.rooms.marker import Claim, NotOurs
from inboxd.rooms.scanning import Scanner, Stopped
from inboxd.rooms.watching import Watcher, limit_told

log = structlog.get_logger(__name__)

WORDS = {
    errno.ENOENT: "the folder does not exist",
    errno.ENOTDIR: "it is not a folder",
    errno.EACCES: "no permission to read the folder",
    errno.ENOTCONN: "the share is gone (transport endpoint is not connected)",
    errno.EHOSTDOWN: "the server does not answer",
    errno.ESTALE: "the share was replaced (stale file handle)",
}


@dataclass(frozen=True, slots=True)
class Report:
    """What the thread has to say after a scan, or instead of one."""

    trouble: str  # why the inbox can't be scanned; empty when it was
    watching: str  # how it is watched and why; empty with trouble
    memory: str  # of the claim: worth keeping
    is_whole: bool = False  # everything was scanned


class Tender:
    """Scans one inbox when its agenda says so. Methods may be called from any thread."""

    def __init__(
        self,
        inbox: InboxId,
        settings: Inbox,
        open_reader: Callable[[], Reader],
        claim: Claim,
        tell: Callable[[Found], bool],
        report: Callable[[Report], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        """`tell` hands over what was found, and may block; `report` and `fail` must not. The thread calls them all."""
        self.path = os.path.normpath(os.fsencode(settings.path))
        self._inbox = inbox
        self._settings = settings
        self._filter = Filter(settings.include, settings.exclude)
        self._open_reader = open_reader
        self._claim = claim
        self._tell = tell
        self._report = report
        self._fail = fail
        self._agenda = Agenda(settings.rescan_interval, settings.poll_interval, time.monotonic())
        self._changed = threading.Condition()
        self._stopping = False
        self._progress_at: float | None = None  # of the scan under way
        self._watcher: Watcher | None = None
        self._unwatched: set[bytes] = set()
        self._no_events = ""  # why folders that should have events have none
        self._at: tuple[bytes, float] | None = None  # the folder being scanned, and since when
        self._waited = 0.0  # seconds of this scan spent on handing over what it found
        self._thread = threading.Thread(target=self._run, name=f"inbox {inbox}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; it does unless the kernel holds it."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def join(self, timeout: float) -> bool:
        """Wait for the thread; False where it is still held."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def rescan(self) -> None:
        """Scan everything as soon as possible."""
        with self._changed:
            self._agenda.want_everything(time.monotonic())
            self._changed.notify()

    def silence(self) -> float:
        """Seconds since the scan under way last got an answer from the folder; 0 where none is under way."""
        at = self._progress_at
        return time.monotonic() - at if at is not None else 0.0

    def _run(self) -> None:
        try:
            with self._open_reader() as reader:
                scanner = Scanner(
                    self._inbox,
                    self.path,
                    self._filter,
                    self._settings,
                    reader,
                    self._claim,
                    self._hand_over,
                    self._on_folder,
                )
                while (scan := self._next()) is not None:
                    self._scan(scanner, scan)
        except BaseException as error:  # noqa: BLE001 - not swallowed: it ends the room, and with it the daemon
            self._fail(error)
        finally:
            self._progress_at = None
            self._stop_watching()

    def _next(self) -> Everything | Some | None:
        """Wait for the next thing on the agenda; None when asked to stop."""
        with self._changed:
            while not self._stopping:
                now = time.monotonic()
                if (scan := self._agenda.take(now)) is not None:
                    return scan
                self._changed.wait(max(0.0, self._agenda.next_at() - now))
            return None

    def _scan(self, scanner: Scanner, scan: Everything | Some) -> None:
        began = self._progress_at = time.monotonic()
        self._at, self._waited = None, 0.0
        trouble = ""
        try:
            if isinstance(scan, Everything):
                self._prepare()
                scanner.everything()
            else:
                scanner.some(scan.folders)
        except Stopped:
            return
        except NotOurs as refusal:
            trouble = str(refusal)
        except OSError as error:
            trouble = WORDS.get(error.errno or 0) or error.strerror or str(error)
        finally:
            self._progress_at = None
        ended = time.monotonic()
        with self._changed:
            if trouble:
                self._agenda.failed(ended)
            else:
                self._note_cost(ended)
                self._agenda.finished(scan, began + self._waited, ended)
                self._agenda.poll(scanner.polled() | self._unwatched)
        if trouble:
            self._stop_watching()
        watching = ""
        if not trouble and scanner.plan is not None:
            watching = scanner.plan.describe(self._settings.poll_interval, self._no_events)
        is_whole = not trouble and isinstance(scan, Everything)
        self._report(Report(trouble, watching, self._claim.memory, is_whole))

    def _prepare(self) -> None:
        """Before everything is scanned: have a watcher, where there can be one."""
        if self._watcher is not None and not self._watcher.is_alive:
            log.warning("events have ended: watching anew", inbox=display(self.path))
            self._stop_watching()
        self._unwatched.clear()
        self._no_events = ""
        if self._watcher is None:
            try:
                self._watcher = Watcher(self._filter, self._on_change, self.rescan)
            except OSError as error:
                self._no_events = limit_told(error)

    def _on_folder(self, folder: bytes, opened: Folder, polled: bool) -> None:
        """A folder is about to be listed: watch it first, so that nothing falls between."""
        now = self._progress_at = time.monotonic()
        with self._changed:
            self._note_cost(now)
        self._at = (folder, now)
        self._unwatched.discard(folder)
        if polled:
            return
        if self._watcher is None:
            self._unwatched.add(folder)
            return
        try:
            self._watcher.watch(folder, opened.fd)
        except OSError as error:
            self._no_events = limit_told(error)
            self._unwatched.add(folder)

    def _note_cost(self, now: float) -> None:
        if self._at is not None:
            self._agenda.scanned_folder(self._at[0], self._at[1], now)

    def _hand_over(self, found: Found) -> bool:
        began = time.monotonic()
        self._progress_at = None  # waiting for intake is no silence of the folder's
        try:
            return not self._stopping and self._tell(found)
        finally:
            now = self._progress_at = time.monotonic()
            self._waited += now - began
            if self._at is not None:
                self._at = (self._at[0], self._at[1] + now - began)

    def _on_change(self, folder: bytes) -> None:
        with self._changed:
            self._agenda.change(folder, time.monotonic())
            self._changed.notify()

    def _stop_watching(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
