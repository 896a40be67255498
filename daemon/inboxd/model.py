"""The nouns that pass between rooms, each frozen; the type's name says what is known of the file by then.

Imports the standard library only. Paths are bytes from end to end: names that are not UTF-8 are ordinary.
Times written `*_at` are UTC seconds since the epoch; durations end in `_s`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NewType

if TYPE_CHECKING:
    import numpy as np

InboxId = NewType("InboxId", int)
FileId = NewType("FileId", int)
PageId = NewType("PageId", int)
BatchId = NewType("BatchId", int)
RunId = NewType("RunId", int)

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


# ---------------------------------------------------------------- inbox → intake


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


# ---------------------------------------------------------------- intake → ledger


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


# ---------------------------------------------------------------- ledger → render


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
class PageClaim:
    """A page that is ours to render and read now; its attempt is already counted in the ledger."""

    page: PageId
    file: FileId
    inbox: InboxId
    number: int  # from 1
    attempt: int  # from 1
    deaths: int  # how many processes or engines died with this page in flight
    kind: Kind
    sha256: str
    size: int  # bytes of the file


# ---------------------------------------------------------------- render → reading


@dataclass(frozen=True, slots=True)
class PageImage:
    """A page as the model wants it.

    `pixels` is uint8, height × width × RGB, C-contiguous, upright by the file's own tags, longest edge at
    most the model's; `width` × `height` is the page itself, from the top left: what lies beyond is white
    padding up to the model's grid. `ink` is the share of pixels that differ from the paper, 0 to 1.
    """

    pixels: np.ndarray
    width: int
    height: int
    ink: float
    warnings: tuple[str, ...] = ()  # what the decoder complained of, for the verdict
    language: str = ""  # of its inbox, in words, for engines that can be told


@dataclass(frozen=True, slots=True)
class PageFailure:
    """A page that could not be rendered or read: a value, not an exception."""

    reason: str  # for a person
    permanent: bool = False  # trying again cannot help
    died: bool = False  # a worker process died with it: counts as a death, not only as an attempt


@dataclass(frozen=True, slots=True)
class Opened:
    """A document that opens, and how many pages it has."""

    pages: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A document that can't be read: encrypted, corrupt, without pages, too large. A value, not an exception."""

    reason: str  # for a person
    died: bool = False  # a worker process died opening it


@dataclass(frozen=True, slots=True)
class Rendered:
    """A claimed page with its pixels, waiting for the engine since `at` (monotonic seconds)."""

    claim: PageClaim
    image: PageImage
    render_s: float
    at: float


# ---------------------------------------------------------------- reading → assembly


@dataclass(frozen=True, slots=True)
class Box:
    """One line of text where the engine saw it: pixels of the page image, axis-aligned, after any turn."""

    text: str
    confidence: float
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True)
class PageText:
    """What an engine read on one page."""

    text: str
    finish: str = "stop"  # stop | length | repetition, as vLLM names them
    confidence: float | None = None  # 0..1 where the engine has one
    boxes: tuple[Box, ...] = ()
    turned: int = 0  # degrees clockwise by which the content lay, and was turned back
    tokens_in: int | None = None
    tokens_out: int | None = None
    first_token_s: float | None = None
    mean_logprob: float | None = None
    read_s: float = 0.0


class PageState(StrEnum):
    """pending → in_flight → one of the rest, which are final."""

    PENDING = "pending"
    IN_FLIGHT = "in_flight"
    OK = "ok"
    BLANK = "blank"
    SUSPECT = "suspect"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PageReading:
    """A page's final word: what the ledger keeps and the outputs say."""

    number: int
    state: PageState
    reason: str  # why it is suspect or failed; "" for ok and blank
    text: str
    width: int  # pixels given to the engine, without padding
    height: int
    engine: str
    model: str
    attempts: int
    seconds: float  # render + read
    confidence: float | None = None
    finish: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    turned: int = 0
    boxes: tuple[Box, ...] = ()
    warnings: tuple[str, ...] = ()  # of the decoder: something of the page may be missing from the text


# ---------------------------------------------------------------- assembly → outputs


@dataclass(frozen=True, slots=True)
class Reading:
    """A whole file, all of its pages final and in order."""

    file: FileId
    inbox: InboxId
    path: bytes  # relative to the inbox
    kind: Kind
    sha256: str
    size: int
    pages: tuple[PageReading, ...]
    duplicate_of: str = ""  # display path of the first arrival of the same content


@dataclass(frozen=True, slots=True)
class Written:
    """An output that is on disk, whole, and may be overwritten by us while it still has this hash."""

    path: bytes  # absolute
    format: str
    sha256: str
    size: int


# ---------------------------------------------------------------- about the daemon itself


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine found itself to be when it started."""

    engine: str
    model: str
    version: str
    device: str = "cpu"
    details: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Memory of one engine at one moment, in bytes; None where it has no such figure."""

    host_rss: int = 0  # of every process of ours; the vitals fill it in, no engine need
    gpu_total: int | None = None
    gpu_used: int | None = None
    gpu_reserved: int | None = None
    gpu_ours: int | None = None
    gpu_others: int | None = None
    torch_allocated: int | None = None
    torch_reserved: int | None = None
    torch_inactive_split: int | None = None
    torch_peak: int | None = None  # most ever allocated at once since the engine started
    torch_largest_free: int | None = None  # largest block that is reserved and free
    torch_alloc_retries: int | None = None
    torch_ooms: int | None = None
    kv_used: float | None = None  # share of the KV cache in use, 0..1
    preemptions: int | None = None
