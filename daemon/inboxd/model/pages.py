"""Pages on their way to the engine: claimed, rendered, or failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NewType

from inboxd.model.files import FileId, InboxId, Kind

if TYPE_CHECKING:
    import numpy as np

PageId = NewType("PageId", int)


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
class Rendered:
    """A claimed page with its pixels, waiting for the engine since `at` (monotonic seconds)."""

    claim: PageClaim
    image: PageImage
    render_s: float
    at: float
