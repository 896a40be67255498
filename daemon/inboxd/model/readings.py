"""What was read: a page's text, its final word, and the whole file as the outputs say it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from inboxd.model.files import FileId, InboxId, Kind


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
class Due:
    """A file whose outputs, or whose move to the archive, are owed now."""

    file: FileId
    folder: bytes  # below its inbox, b"" for the inbox itself
    is_written: bool = False  # outputs are on disk already: where there is an archive, it is the move that is owed


@dataclass(frozen=True, slots=True)
class Written:
    """An output that is on disk, whole, and may be overwritten by us while it still has this hash."""

    path: bytes  # absolute
    format: str
    sha256: str
    size: int
