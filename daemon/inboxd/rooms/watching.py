"""inotify by watchdog, as a hint only: an event says that a folder wants a scan, never what is in it.

Uses watchdog's descriptor and its reading thread without its observers: they would walk into folders that we leave
alone, stay silent about folders that they failed to watch and about lost events, and take a thread a folder.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import structlog
from watchdog.observers.inotify_c import CallbackId, InotifyConstants, InotifyEvent, InotifyFD, Mask, WatchDescriptor

from inboxd.core.ignoring import Filter
from inboxd.core.naming import PREFIX
from inboxd.rooms.marker import CHALLENGE

log = structlog.get_logger(__name__)

# Nothing that reading causes: a scan must not raise the events that call for the next one. Nor every write to a
# growing file: what settles is looked at anyway, and the writer's close is told.
_MASK = Mask(
    InotifyConstants.IN_CREATE
    | InotifyConstants.IN_CLOSE_WRITE
    | InotifyConstants.IN_ATTRIB
    | InotifyConstants.IN_MOVED_FROM
    | InotifyConstants.IN_MOVED_TO
    | InotifyConstants.IN_DELETE
    | InotifyConstants.IN_DELETE_SELF
    | InotifyConstants.IN_MOVE_SELF
    | InotifyConstants.IN_ONLYDIR
)
_LIMITS = Path("/proc/sys/fs/inotify")


class Watcher:
    """Watches folders of one inbox; close it. Events arrive on a thread of watchdog's."""

    def __init__(self, filter: Filter, on_change: Callable[[bytes], None], on_loss: Callable[[], None]) -> None:
        """`on_change` is told folders below the inbox, `on_loss` that events were lost; neither may block or raise.

        Raises:
            OSError: no more inotify instances (EMFILE).
        """
        self._filter = filter
        self._on_change = on_change
        self._on_loss = on_loss
        self._lock = threading.Lock()
        self._folders: dict[WatchDescriptor, tuple[bytes, tuple[int, int]]] = {}  # where it lies, device and inode
        self._descriptors: dict[tuple[int, int], WatchDescriptor] = {}
        self._own_cookie = 0  # of a rename that our outputs room made
        self._inotify = InotifyFD()
        self._inotify.start()

    @property
    def is_alive(self) -> bool:
        return self._inotify.is_alive()

    def watch(self, folder: bytes, fd: int) -> None:
        """Watch the open directory `fd`, which lies at `folder` now. Cheap where it is watched already.

        Raises:
            OSError: it can't be watched; ENOSPC: no more inotify watches.
        """
        status = os.fstat(fd)
        key = (status.st_dev, status.st_ino)
        with self._lock:
            if key in self._descriptors:
                self._folders[self._descriptors[key]] = (folder, key)  # it may have been moved
                return
        # By way of the descriptor: the path may lead elsewhere by now.
        path = b"/proc/self/fd/%d" % fd
        descriptor = self._inotify.add_callback(path, _MASK, self, CallbackId(id(self)))
        with self._lock:
            self._descriptors[key] = descriptor
            self._folders[descriptor] = (folder, key)

    def close(self) -> None:
        """Stop watching; no more is told once this returns. Idempotent."""
        self._inotify.stop()
        self._inotify.join()

    # What watchdog calls, on its thread.

    def on_event(self, event: InotifyEvent) -> None:
        with self._lock:
            folder, _ = self._folders.get(event.wd, (None, None))
        if folder is None or self._is_noise(folder, event):
            return
        self._on_change(folder)
        if not event.name and folder:  # deleted or moved itself: its parent shows that
            self._on_change(folder.rpartition(b"/")[0])

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        with self._lock:
            folder, key = self._folders.pop(wd, (None, None))
            if key is not None:
                del self._descriptors[key]
        if folder is not None:  # another folder may lie there by now
            self._on_change(folder)

    def on_queue_overflow(self) -> None:
        log.warning("the kernel lost events: scanning everything")
        self._on_loss()

    def _is_noise(self, folder: bytes, event: InotifyEvent) -> bool:
        """Names that are no input, and outputs of ours as they get their final name."""
        if event.name == CHALLENGE or not event.name:
            return False
        if event.is_moved_from and event.name.startswith(PREFIX):
            self._own_cookie = event.cookie
            return True
        if event.is_moved_to and event.cookie == self._own_cookie:
            return True
        rule = self._filter.folder if event.is_directory else self._filter.file
        return rule(folder, event.name) is not None


def limit_told(error: OSError) -> str:
    """Why a folder can't be watched, with the setting that would change it."""
    if error.errno == errno.ENOSPC:
        return _told("watch", "max_user_watches")
    if error.errno == errno.EMFILE:
        return _told("instance", "max_user_instances")
    return f"no events: {error.strerror}"


def _told(what: str, setting: str) -> str:
    try:
        value = int((_LIMITS / setting).read_text())
    except OSError:
        return f"inotify's {what} limit is reached: raise fs.inotify.{setting}"
    return f"inotify's {what} limit is reached: sysctl fs.inotify.{setting}={2 * value}"
