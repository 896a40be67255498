"""Output and archive folders as configured: made where they are new, refused where their disk is away."""

from __future__ import annotations

import errno
import os

from inboxd.rooms.folders import Folder


class Roots:
    """Remembers for one life which roots were mount points, so that a bare mount point is never written into."""

    def __init__(self) -> None:
        self._mounts: set[bytes] = set()

    def prepare(self, root: bytes, like: bytes) -> None:
        """Make `root`, with the group and mode of the folder `like`, where it is missing.

        Not in an empty folder, though: that is what a mount point looks like while its disk or share is away.

        Raises:
            OSError: it can't be made, or its disk is away (ENOENT, ENODEV).
        """
        if not os.path.isdir(root):  # noqa: PTH112
            _make(root, os.stat(like))  # noqa: PTH116
        if os.path.ismount(root):
            self._mounts.add(root)
        elif root in self._mounts:
            raise OSError(errno.ENODEV, "was a mount point and is none now", root)


def _make(root: bytes, like: os.stat_result) -> None:
    missing: list[bytes] = []
    at = root
    while not os.path.isdir(at):  # noqa: PTH112
        at, _, name = at.rpartition(b"/")
        at = at or b"/"
        missing.append(name)
    if not holds_anything(at):
        raise FileNotFoundError(errno.ENOENT, "the folder that should hold it is empty", root)
    folder = Folder.open(at)
    for name in reversed(missing):
        with folder:
            folder = folder.make(name, like)
    folder.close()


def holds_anything(folder: bytes | int) -> bool:
    """Whether there is anything in a folder, by its path or descriptor; one that may not be listed is taken to hold it.

    Raises:
        OSError: it can't be listed for another reason.
    """
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except PermissionError:
        return True
