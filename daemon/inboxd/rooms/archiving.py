"""Archiving: an original moves out of its inbox once its outputs are down; at every moment one whole copy exists."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress
from dataclasses import replace

from inboxd import faults
from inboxd.core.naming import numbered
from inboxd.model import Signature
from inboxd.rooms.folders import Folder, dress
from inboxd.rooms.listing import signature_of
from inboxd.rooms.placing import Draft, rename_new

_BLOCK = 1024 * 1024


class Changed(Exception):
    """The original is no longer the file that was read: it stays where it is."""


def move(home: Folder, name: bytes, archive: Folder, signature: Signature, sha256: str) -> bytes:
    """Move the original `name` from its folder into the archive's, under the first free name; gives that name.

    Where the archive is on another filesystem the original is copied, the copy checked, and only then removed.
    A file with the same content that has the name already is as good as a copy.

    Raises:
        Changed: it has other content, or was replaced while it moved.
        OSError: it could not be moved; it is still in its folder.
    """
    if os.path.samestat(home.own_status(), archive.own_status()):
        return name
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=home.fd)
    try:
        if not same(os.fstat(fd), signature):
            raise Changed
        for target in numbered(name, archive.name_max):
            with suppress(FileExistsError):
                if not _holds(archive, target, signature.size, sha256):
                    if _rename(home, name, archive, target, fd):
                        return target
                    _copy(fd, archive, target, sha256)
                faults.point("archiving.copied")
                _remove(home, name, fd, signature)
                return target
        raise AssertionError("numbers never end")
    finally:
        os.close(fd)


def find(archive: Folder, name: bytes, size: int, sha256: str) -> bytes | None:
    """The name under which the archive has this original already; None if it has not."""
    for target in numbered(name, archive.name_max):
        if archive.status(target) is None:
            return None
        if _holds(archive, target, size, sha256):
            return target
    raise AssertionError("numbers never end")


def same(status: os.stat_result, signature: Signature) -> bool:
    """Whether it is still the content that was read: by all but ctime, which a chmod changes too.

    A signature from where inodes are made up has none.
    """
    found = signature_of(status, keeps_inodes=signature.inode != 0)
    return stat.S_ISREG(status.st_mode) and found == replace(signature, ctime_ns=found.ctime_ns)


def _rename(home: Folder, name: bytes, archive: Folder, target: bytes, fd: int) -> bool:
    """False where the two are on different filesystems."""
    try:
        rename_new(home, name, archive, target)
    except OSError as error:
        if error.errno == errno.EXDEV:
            return False
        raise
    faults.point("archiving.renamed")
    moved = archive.status(target)
    if moved is None or not os.path.samestat(moved, os.fstat(fd)):
        # Something took its name in the last moment, and was moved in its stead: put it back, or leave it safe.
        with suppress(FileExistsError):
            rename_new(archive, target, home, name)
        raise Changed
    archive.sync()
    home.sync()
    return True


def _copy(fd: int, archive: Folder, target: bytes, sha256: str) -> None:
    status = os.fstat(fd)
    with Draft(archive) as draft:
        os.lseek(fd, 0, os.SEEK_SET)
        while block := os.read(fd, _BLOCK):
            draft.write(block)
        dress(draft.fd, status, stat.S_IMODE(status.st_mode))
        _carry_attributes(fd, draft.fd)
        os.utime(draft.fd, ns=(status.st_atime_ns, status.st_mtime_ns))
        if draft.hash() != sha256:
            raise Changed
        draft.finish()
        draft.place(target)
    archive.sync()


def _holds(archive: Folder, target: bytes, size: int, sha256: str) -> bool:
    """Whether the archive has this very content under this name."""
    status = archive.status(target)
    if status is None or not stat.S_ISREG(status.st_mode) or status.st_size != size:
        return False
    copy = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=archive.fd)
    with os.fdopen(copy, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256


def _remove(home: Folder, name: bytes, fd: int, signature: Signature) -> None:
    """Unlink the original if it is still what was copied. A file that takes its name between the two calls is lost
    here: a risk of microseconds that no call of Linux can close."""
    now = home.status(name)
    if now is None or not same(now, signature) or not same(os.fstat(fd), signature):
        raise Changed
    os.unlink(name, dir_fd=home.fd)
    faults.point("archiving.removed")
    home.sync()


def _carry_attributes(source: int, target: int) -> None:
    """Extended attributes, as far as the other filesystem takes them."""
    with suppress(OSError):
        for name in os.listxattr(source):
            with suppress(OSError):
                os.setxattr(target, name, os.getxattr(source, name))
