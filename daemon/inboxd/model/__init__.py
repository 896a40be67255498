"""The nouns that pass between rooms, each frozen; the type's name says what is known of the file by then.

Imports the standard library only. Paths are bytes from end to end: names that are not UTF-8 are ordinary.
Times written `*_at` are UTC seconds since the epoch; durations end in `_s`.
"""

from inboxd.model.engine import BatchId, EngineInfo, MemorySample, RunId
from inboxd.model.files import (
    Arrival,
    Entry,
    FileClaim,
    FileId,
    Gone,
    InboxId,
    Kind,
    Opened,
    Refused,
    Sighting,
    Signature,
    Tracked,
)
from inboxd.model.pages import PageClaim, PageFailure, PageId, PageImage, Rendered
from inboxd.model.readings import Box, Due, PageReading, PageState, PageText, Reading, Written

__all__ = [
    "Arrival",
    "BatchId",
    "Box",
    "Due",
    "EngineInfo",
    "Entry",
    "FileClaim",
    "FileId",
    "Gone",
    "InboxId",
    "Kind",
    "MemorySample",
    "Opened",
    "PageClaim",
    "PageFailure",
    "PageId",
    "PageImage",
    "PageReading",
    "PageState",
    "PageText",
    "Reading",
    "Refused",
    "Rendered",
    "RunId",
    "Sighting",
    "Signature",
    "Tracked",
    "Written",
]
