"""One folder's entries as a scan sees them: what may be input, the folders to go on to, and every name."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from inboxd.core.ignoring import Filter
from inboxd.model import Entry, Signature
from inboxd.rooms.folders import Folder

_ENTRIES = {
    stat.S_IFREG: Entry.FILE,
    stat.S_IFLNK: Entry.SYMLINK,
    stat.S_IFIFO: Entry.FIFO,
    stat.S_IFSOCK: Entry.SOCKET,
    stat.S_IFCHR: Entry.DEVICE,
    stat.S_IFBLK: Entry.DEVICE,
}


@dataclass(frozen=True, slots=True)
class Listing:
    """What lies in a folder: entries that may be input, folders with their inodes, and all names there are."""

    entries: list[tuple[bytes, Entry, Signature]]
    children: dict[bytes, int]
    names: set[bytes]

    def digest(self) -> int:
        """Equal digests: nothing has changed among the entries. Good for one process only."""
        return hash(frozenset(self.entries))


def list_folder(folder: Folder, below: bytes, filter: Filter, *, keeps_inodes: bool) -> Listing:
    """List an open folder, which lies at `below` in its inbox; what `filter` ignores is left out.

    Raises:
        OSError: it can't be listed, or what is in it can't be seen.
    """
    entries: list[tuple[bytes, Entry, Signature]] = []
    children: dict[bytes, int] = {}
    names: set[bytes] = set()
    with os.scandir(folder.fd) as found:
        for entry in found:
            name = os.fsencode(entry.name)
            names.add(name)
            if entry.is_dir(follow_symlinks=False):
                if filter.folder(below, name) is None:
                    children[name] = entry.inode()
            elif filter.file(below, name) is None:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                kind = _ENTRIES.get(stat.S_IFMT(status.st_mode))
                if kind is not None:
                    entries.append((name, kind, signature_of(status, keeps_inodes=keeps_inodes)))
    return Listing(entries, children, names)


def signature_of(status: os.stat_result, *, keeps_inodes: bool) -> Signature:
    """What tells one content of a file from the next; the inode is left out where it changes by itself."""
    inode = status.st_ino if keeps_inodes else 0
    return Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns, inode)


def descend(root: Folder, folder: bytes) -> Folder:
    """A folder below an open one; OSError where it is not there, or a symbolic link stands on the way."""
    at = Folder(os.dup(root.fd), root.path)
    for name in folder.split(b"/") if folder else ():
        with at:
            at = at.enter(name)
    return at


def join(folder: bytes, name: bytes) -> bytes:
    """The path of a name in a folder below the inbox; `b""` is the inbox itself."""
    return folder + b"/" + name if folder else name


def is_within(path: bytes, top: bytes) -> bool:
    """Whether `path` is `top` or lies below it."""
    return path == top or path.startswith(top + b"/")
