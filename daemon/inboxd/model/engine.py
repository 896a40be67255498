"""What an engine tells of itself, and the runs and batches that the ledger counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NewType

RunId = NewType("RunId", int)
BatchId = NewType("BatchId", int)


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
    torch_alloc_retries: int | None = None
    torch_ooms: int | None = None
    kv_used: float | None = None  # share of the KV cache in use, 0..1
    preemptions: int | None = None
