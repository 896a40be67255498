"""Placing: a file appears under its final name whole, or not at all, and never over one that stands there."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import secrets
import stat
from contextlib import suppress
from types import TracebackType
from typing import Self

from inboxd import faults
from inboxd.core.naming import PREFIX, is_temporary, temporary
from inboxd.rooms.folders import Folder

_LIFE = secrets.token_hex(4)  # in the temporary names of this process, so that a sweep leaves its own alone
_NOREPLACE = 1
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}  # NFS answers EINVAL
_NO_LINKS = _UNSUPPORTED | {errno.EPERM, errno.EMLINK}
_libc = ctypes.CDLL(None, use_errno=True)


class Draft:
    """A new file under a temporary name beside its target; when the block ends it has been placed, or is gone.

    Methods raise OSError.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._name = temporary(_LIFE + secrets.token_hex(4))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.fd = os.open(self._name, flags, 0o600, dir_fd=folder.fd)
        self._open = True
        self._placed = False
        faults.point("placing.created")

    def write(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.fd, rest) :]

    def hash(self) -> str:
        """SHA-256 of what the disk has of it, read back."""
        os.fsync(self.fd)
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)
        with os.fdopen(os.dup(self.fd), "rb") as file:
            file.seek(0)
            return hashlib.file_digest(file, "sha256").hexdigest()

    def finish(self) -> None:
        """Make the content durable, and close: shares report a full disk no earlier than here."""
        faults.point("placing.written")
        os.fsync(self.fd)
        self._open = False
        os.close(self.fd)
        faults.point("placing.synced")

    def place(self, name: bytes) -> None:
        """Give it its final name.

        Raises:
            FileExistsError: something stands there; the draft is still one.
        """
        rename_new(self._folder, self._name, self._folder, name)
        self._placed = True
        faults.point("placing.placed")

    def replace(self, name: bytes) -> None:
        """Give it its final name, in place of the file of ours that has it."""
        os.rename(self._name, name, src_dir_fd=self._folder.fd, dst_dir_fd=self._folder.fd)
        self._placed = True
        faults.point("placing.replaced")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        # What fails here has failed before, and been told then; a temporary that stays is swept by the next life.
        with suppress(OSError):
            if self._open:
                os.close(self.fd)
        if not self._placed:
            with suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder.fd)


def rename_new(source: Folder, old: bytes, target: Folder, new: bytes) -> None:
    """Rename a file, if nothing has the new name.

    Where the filesystem can't do that in one step it is linked under the new name and unlinked under the old;
    where it has no links either, a file that appears in the last microsecond is replaced: a risk kept for the
    sake of rclone mounts and their like.

    Raises:
        FileExistsError: something has the new name.
        OSError: anything else.
    """
    if _rename_noreplace(source.fd, old, target.fd, new):
        return
    try:
        os.link(old, new, src_dir_fd=source.fd, dst_dir_fd=target.fd, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    else:
        faults.point("placing.linked")
        os.unlink(old, dir_fd=source.fd)
        return
    if target.status(new) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
    os.rename(old, new, src_dir_fd=source.fd, dst_dir_fd=target.fd)


def _rename_noreplace(source: int, old: bytes, target: int, new: bytes) -> bool:
    """renameat2(2); False where the kernel, the C library or the filesystem doesn't have it."""
    try:
        renameat2 = _libc.renameat2
    except AttributeError:
        return False
    if renameat2(source, old, target, new, _NOREPLACE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), new)


def sweep(folder: Folder) -> int:
    """Remove the temporaries that earlier lives left in a folder; how many there were.

    Another daemon that writes into the same folder may lose a draft to it, and then writes that one again.

    Raises:
        OSError: the folder can't be read, or a temporary not removed.
    """
    swept = 0
    own = PREFIX + _LIFE.encode()
    for entry in os.listdir(folder.fd):
        name = os.fsencode(entry)
        if not is_temporary(name) or name.startswith(own):
            continue
        status = folder.status(name)
        if status is not None and stat.S_ISREG(status.st_mode):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder.fd)
                faults.point("placing.swept")
                swept += 1
    return swept
