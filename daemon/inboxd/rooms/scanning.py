"""The walk through an inbox. A scan is the truth about it; events only say when to look. Used from one thread."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from inboxd.config import Inbox
from inboxd.core.ignoring import Filter
from inboxd.core.naming import display
from inboxd.ledger.reading import Reader
from inboxd.model import InboxId
from inboxd.rooms.comparing import ABSENT, Comparer, Found
from inboxd.rooms.folders import Folder
from inboxd.rooms.listing import descend, is_within, join, list_folder
from inboxd.rooms.marker import Claim
from inboxd.rooms.mounts import Plan, Site, plan

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Seen:
    """What the last scan of a folder saw."""

    children: dict[bytes, int]
    device: int
    digest: int = 0
    is_quiet: bool = False  # nothing came out of it


class Stopped(Exception):
    """The scan was cut short: nobody takes what it finds any more."""


class Scanner:
    """Walks one inbox and tells what it finds."""

    def __init__(
        self,
        inbox: InboxId,
        path: bytes,
        filter: Filter,
        settings: Inbox,
        reader: Reader,
        claim: Claim,
        tell: Callable[[Found], bool],
        on_folder: Callable[[bytes, Folder, bool], None],
    ) -> None:
        """`tell` takes what was found, and says whether to go on.

        `on_folder` is called with each open folder before it is listed, which is the moment to watch it for changes,
        and with whether it is polled instead.
        """
        self._path = path
        self._filter = filter
        self._settings = settings
        self._comparer = Comparer(inbox, reader, filter)
        self._claim = claim
        self._on_found = tell
        self._on_folder = on_folder
        self.plan: Plan | None = None  # how the inbox is to be watched, as of the last scan
        self._seen: dict[bytes, _Seen] = {}
        self._root_id: tuple[int, int] | None = None
        self._blind: set[bytes] = set()  # folders that can't be seen
        self._told: dict[bytes, str] = {}  # why, as the log says

    def polled(self) -> set[bytes]:
        """The folders in which events tell nothing; `b""` is the inbox itself."""
        if self.plan is None or not self.plan.polls_anything:
            return set()
        return {folder for folder in self._seen if self._site(folder).polled}

    def everything(self) -> None:
        """Scan the whole inbox.

        Raises:
            NotOurs, OSError: the inbox can't be scanned, which says nothing about what is in it.
            Stopped: `tell` said so.
        """
        with self._open() as root:
            before, self._seen = self._seen, {}
            self._blind.clear()
            try:
                self._walk(root, [b""], before, is_thorough=True)
            except OSError:
                self._seen = before | self._seen  # what was mounted where stays known
                raise
            for folder in self._told.keys() - self._blind:
                log.info("folder can be seen again", folder=self._shown(folder))
                del self._told[folder]
            self._miss(lambda folder: folder not in self._seen)

    def some(self, folders: Iterable[bytes]) -> None:
        """Scan these folders, and what is new below them; otherwise as `everything`."""
        with self._open() as root:
            if self._seen:
                self._blind.difference_update(folders)
                self._walk(root, sorted(folders, reverse=True), self._seen, is_thorough=False)
                return
        self.everything()

    def _open(self) -> Folder:
        root = Folder.open(self._path)
        try:
            self.plan = plan(root, self._settings.watch)
            self._claim.check(root, self.plan.site.place)
            status = root.own_status()
        except BaseException:
            root.close()
            raise
        if self._root_id != (status.st_dev, status.st_ino):
            self._root_id = (status.st_dev, status.st_ino)
            self._seen = {}  # another folder has taken its place
        return root

    def _walk(self, root: Folder, todo: list[bytes], before: dict[bytes, _Seen], *, is_thorough: bool) -> None:
        """Scan the folders of `todo`; with them what is below, if thorough, or else what is new below."""
        self._comparer.begin()
        visited: set[bytes] = set()
        lost: list[bytes] = []
        while todo:
            folder = todo.pop()
            if folder in visited or self._is_hidden(folder):
                continue
            visited.add(folder)
            old = before.get(folder)
            try:
                with descend(root, folder) as opened:
                    seen = self._folder(root, opened, folder, old, is_thorough=is_thorough)
            except OSError as error:
                if not folder or error.errno in (errno.EMFILE, errno.ENFILE):
                    raise
                if error.errno not in ABSENT:
                    os.fstatvfs(root.fd)  # raises where the whole share is away
                    self._cannot_see(folder, error.strerror or str(error))
                continue
            self._seen[folder] = seen
            known = {} if is_thorough or old is None else old.children
            todo += [join(folder, name) for name, inode in seen.children.items() if known.get(name) != inode]
            lost += [join(folder, name) for name in known.keys() - seen.children.keys()]
        for found in self._comparer.missing(root):
            self._tell(found)
        if lost:
            self._forget(lost)

    def _folder(self, root: Folder, opened: Folder, folder: bytes, old: _Seen | None, *, is_thorough: bool) -> _Seen:
        site = self._site(folder)
        self._on_folder(folder, opened, site.polled)
        device = opened.own_status().st_dev
        if old is not None and old.device != device and device == root.own_status().st_dev:
            # A bare mount point says nothing about the files.
            self._cannot_see(folder, "what was mounted here is gone")
            return _Seen({}, old.device)
        listing = list_folder(opened, folder, self._filter, keeps_inodes=site.mount.keeps_inodes)
        seen = _Seen(listing.children if self._settings.recursive else {}, device, listing.digest(), is_quiet=True)
        if not is_thorough and old is not None and old.is_quiet and old.digest == seen.digest:
            return seen
        if listing.entries:
            self._claim.remember()
        for found in self._comparer.differences(root, opened, folder, listing):
            seen.is_quiet = False
            self._tell(found)
        return seen

    def _site(self, folder: bytes) -> Site:
        assert self.plan is not None, "made when the inbox is opened"
        return self.plan.at(folder)

    def _forget(self, lost: list[bytes]) -> None:
        """Folders were deleted or moved away."""

        def is_lost(folder: bytes) -> bool:
            return any(is_within(folder, top) for top in lost)

        for folder in [folder for folder in self._seen if is_lost(folder)]:
            del self._seen[folder]
        self._miss(is_lost)

    def _miss(self, is_lost: Callable[[bytes], bool]) -> None:
        """Tell what the ledger waits for in folders that are no more; not in those that just can't be seen."""
        for folder in self._comparer.awaited_folders():
            if is_lost(folder) and not self._is_hidden(folder):
                for found in self._comparer.missing_in(folder):
                    self._tell(found)

    def _tell(self, found: Found) -> None:
        if not self._on_found(found):
            raise Stopped

    def _is_hidden(self, folder: bytes) -> bool:
        return any(is_within(folder, blind) for blind in self._blind)

    def _cannot_see(self, folder: bytes, why: str) -> None:
        self._blind.add(folder)
        if self._told.get(folder) != why:
            self._told[folder] = why
            log.warning("folder can't be seen", folder=self._shown(folder), reason=why)

    def _shown(self, folder: bytes) -> str:
        return display(join(self._path, folder))
