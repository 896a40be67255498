"""Files: what a scan sees, what intake takes, and what opening a document tells."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NewType

InboxId = NewType("InboxId", int)
FileId = NewType("FileId", int)

_HALF = 2**63


class Entry(StrEnum):
    """What a directory entry is, by lstat; only a FILE is ever opened as input."""

    FILE = "file"
    SYMLINK = "symbolic link"
    FIFO = "named pipe"
    SOCKET = "socket"
    DEVICE = "device"


class Kind(StrEnum):
    """Type of a document, judged by its first bytes, never by its name."""

    PDF = "pdf"
    JPEG = "jpeg"
    PNG = "png"
    TIFF = "tiff"
    WEBP = "webp"
    BMP = "bmp"
    GIF = "gif"
    JP2 = "jp2"
    PNM = "pnm"
    AVIF = "avif"


@dataclass(frozen=True, slots=True)
class Signature:
    """What stat says of a file's content; equal signatures mean that nobody has written in between.

    Filesystems know inodes and times that no signed 64-bit number holds; those are folded into one, as the
    ledger keeps them, so that a signature read back equals the one that was written.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    def __post_init__(self) -> None:
        for name in ("size", "mtime_ns", "ctime_ns", "inode"):
            value = getattr(self, name)
            if not -_HALF <= value < _HALF:
                object.__setattr__(self, name, (value + _HALF) % (2 * _HALF) - _HALF)


@dataclass(frozen=True, slots=True)
class Sighting:
    """An entry that a scan found new or changed; perhaps still growing."""

    inbox: InboxId
    path: bytes  # relative to the inbox
    entry: Entry
    signature: Signature


@dataclass(frozen=True, slots=True)
class Gone:
    """A file that the ledger still waits for is no longer in its (readable) folder, or no longer wanted there."""

    inbox: InboxId
    path: bytes
    why: str = "deleted before it was done"  # for a person


@dataclass(frozen=True, slots=True)
class Tracked:
    """A sighting that has a row in the ledger: the file is settling."""

    file: FileId
    sighting: Sighting


@dataclass(frozen=True, slots=True)
class Arrival:
    """A settled file, copied whole to the spool while it was hashed."""

    file: FileId
    signature: Signature
    kind: Kind
    sha256: str  # lower-case hex
    spool: Path


@dataclass(frozen=True, slots=True)
class FileClaim:
    """A file that is ours to open now; its attempt is already counted in the ledger."""

    file: FileId
    inbox: InboxId
    path: bytes  # relative to the inbox
    kind: Kind
    sha256: str
    size: int
    attempt: int
    deaths: int = 0  # how many processes died with this file being opened


@dataclass(frozen=True, slots=True)
class Opened:
    """A document that opens, and how many pages it has."""

    pages: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A document that can't be read: encrypted, corrupt, without pages, too large. A value, not an exception."""

    reason: str  # for a person
    died: bool = False  # a worker process died opening it
