"""What a failed write means to a person: which folder, why, and what to do about it."""

from __future__ import annotations

import errno
from enum import StrEnum

KEPT = "the result is kept and will be written by itself"
STAYS = "the original stays where it is, and its move will be tried again"
_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM}
_IN_USE = {errno.EBUSY, errno.ETXTBSY}
_LINK = {errno.ELOOP, errno.ENOTDIR}
_NAME = {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ}
_AWAY = {
    errno.EIO,
    errno.ENOTCONN,
    errno.ESTALE,
    errno.ENODEV,
    errno.ENXIO,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.ETIMEDOUT,
    errno.ESHUTDOWN,
    errno.EREMOTEIO,
}


class Reach(StrEnum):
    """What else will meet the same trouble."""

    FILE = "file"  # nothing, as far as one can tell
    FOLDER = "folder"  # whatever is written into this folder
    INBOX = "inbox"  # whatever is written for this inbox: its disk or its share is to blame


_MAY_BE_ONE_FILES = {errno.EIO, errno.ESTALE}


def reach(number: int) -> Reach:
    """How far the trouble behind an errno reaches."""
    if number in _FULL | {errno.EROFS, errno.ENOENT, errno.EMFILE, errno.ENFILE} | _AWAY - _MAY_BE_ONE_FILES:
        return Reach.INBOX
    return Reach.FOLDER if number in _FORBIDDEN | _LINK else Reach.FILE


def is_full(number: int) -> bool:
    """Whether an errno says that a disk or a quota is full."""
    return number in _FULL


def cannot_write(number: int, folder: str, who: str, then: str = KEPT) -> str:
    """A sentence about a write that failed and will be tried again.

    Args:
        number: the errno.
        folder: as shown to a person.
        who: the user that this process is, and whose the folder is.
        then: what becomes of the matter.
    """
    if number in _FULL:
        quota = "the quota is used up" if number == errno.EDQUOT else "no space (or no inode) is left"
        return f"{quota} in {folder}: free some; {then}"
    if number == errno.EROFS:
        return f"{folder} is read-only: make it writable, or set output_dir to another folder; {then}"
    if number in _FORBIDDEN:
        return f"no permission to write in {folder} ({who}): grant it, or set output_dir to another folder; {then}"
    if number in _IN_USE:
        return f"a file in {folder} is in use by another program: close it there; {then}"
    if number in _AWAY:
        return f"{folder} cannot be reached ({_words(number)}): check the disk or the share; {then}"
    if number in _LINK:
        return f"on the way to {folder} stands a symbolic link or a file, which is not followed: remove it; {then}"
    if number in _NAME:
        return f"the filesystem of {folder} does not take the name: set output_dir to a folder on another one; {then}"
    if number in {errno.EMFILE, errno.ENFILE}:
        return f"no file descriptor was free to write in {folder}: raise the limit (ulimit -n); {then}"
    if number == errno.ENOENT:
        return f"{folder} is not there: create or mount it; {then}"
    return f"cannot write in {folder} ({_words(number)}); {then}"


def _words(number: int) -> str:
    return errno.errorcode.get(number, f"error {number}")
