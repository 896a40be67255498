"""Folders as open descriptors: below the one that the configuration names, no symbolic link is ever followed."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

from inboxd import faults
from inboxd.core.naming import NAME_MAX, display

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OUTPUT_MODE = 0o666
_NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF}
"""How filesystems (FUSE, some shares) say that a folder can't be synced."""


class Folder:
    """An open directory; close it, or use it in a `with` block. Methods raise OSError."""

    def __init__(self, fd: int, path: bytes) -> None:
        self.fd = fd
        self.path = path  # absolute; for people and for the ledger, never opened again

    @classmethod
    def open(cls, path: bytes) -> Self:
        """A folder that the configuration names: it may itself be a symbolic link."""
        return cls(os.open(path, _DIRECTORY), os.path.normpath(path))

    def enter(self, name: bytes) -> Folder:
        """A folder in this one; ENOTDIR or ELOOP where a symbolic link stands."""
        return Folder(os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd), self.at(name))

    def make(self, name: bytes, like: os.stat_result) -> Folder:
        """A folder in this one, created with the group and mode of `like` where it is missing."""
        with suppress(FileNotFoundError):
            return self.enter(name)
        with suppress(FileExistsError):  # another delivery was quicker
            os.mkdir(name, 0o700, dir_fd=self.fd)
            faults.point("folders.made")
        made = self.enter(name)
        try:
            dress(made.fd, like, stat.S_IMODE(like.st_mode))
            self.sync()
        except OSError:
            made.close()
            raise
        return made

    def at(self, name: bytes) -> bytes:
        """The absolute path of a name in this folder."""
        return os.path.join(self.path, name)  # noqa: PTH118

    def status(self, name: bytes) -> os.stat_result | None:
        """lstat of a name in this folder; None where nothing has it."""
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def own_status(self) -> os.stat_result:
        return os.fstat(self.fd)

    def sync(self) -> None:
        """Make the names in this folder durable, where its filesystem can."""
        try:
            os.fsync(self.fd)
        except OSError as error:
            if error.errno not in _NO_FOLDER_SYNC:
                raise

    @property
    def name_max(self) -> int:
        """Bytes that a name may have here; eCryptfs, for one, allows 143."""
        return min(NAME_MAX, os.fpathconf(self.fd, "PC_NAME_MAX"))

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()


def below(root: bytes, relative: bytes) -> Folder:
    """The folder `relative` below `root`.

    Raises:
        OSError: it can't be opened, or a symbolic link stands on the way.
    """
    folder = Folder.open(root)
    for part in _parts(relative):
        with folder:
            folder = folder.enter(part)
    return folder


def mirrored(root: bytes, relative: bytes, pattern: bytes) -> Folder:
    """The folder `relative` below `root`, made where it is missing, each part with the group and mode it has below
    `pattern`.

    Raises:
        OSError: as `below`, for either of the two.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(Folder.open(root))
        model = stack.enter_context(Folder.open(pattern))
        for part in _parts(relative):
            model = stack.enter_context(model.enter(part))
            folder = stack.enter_context(folder.make(part, model.own_status()))
        return Folder(os.dup(folder.fd), folder.path)


def dress(fd: int, like: os.stat_result, mode: int) -> bool:
    """Give an open file or folder the owner, group and `mode` that its reader expects; the umask has no say.

    Only root may give files away; anyone else gets as far as the group. False where not even that was allowed:
    shares and FAT have their own mind, and the text in hand matters more.
    """
    try:
        os.fchown(fd, like.st_uid, like.st_gid)
    except OSError:
        given = _give_group(fd, like.st_gid)
    else:
        given = True
    try:
        os.fchmod(fd, mode)
    except OSError:
        return False
    return given


def dress_output(fd: int, original: os.stat_result) -> bool:
    """Give an output what its original's readers expect, without the execute bits: it is no program. As `dress`."""
    return dress(fd, original, original.st_mode & _OUTPUT_MODE)


def _give_group(fd: int, gid: int) -> bool:
    try:
        os.fchown(fd, -1, gid)
    except OSError:
        return False
    return True


def _parts(relative: bytes) -> list[bytes]:
    parts = [part for part in relative.split(b"/") if part]
    if b".." in parts or b"." in parts:
        raise OSError(errno.EINVAL, "a path below an inbox has no . or .. in it", display(relative))
    return parts
