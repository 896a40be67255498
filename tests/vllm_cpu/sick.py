"""A worker that can't do what it is asked beside reading pages."""

from __future__ import annotations

from inboxd.engines.vllm_worker import InboxdWorker


class SickWorker(InboxdWorker):
    """In vLLM's own process, as `worker_extension_cls`."""

    def inboxd_memory(self) -> dict[str, int]:
        raise ZeroDivisionError("the worker fell over")

    def inboxd_relieve(self) -> int:
        raise ZeroDivisionError("the worker fell over")
