"""Workers that can't do what they are asked beside reading pages, or do it as vLLM does."""

from __future__ import annotations

from inboxd.engines.vllm_worker import InboxdWorker


class SickWorker(InboxdWorker):
    """In vLLM's own process, as `worker_extension_cls`."""

    def inboxd_memory(self) -> dict[str, int]:
        raise ZeroDivisionError("the worker fell over")

    def inboxd_relieve(self) -> int:
        raise ZeroDivisionError("the worker fell over")


class SendingWorker(InboxdWorker):
    """Sends log-probabilities with each token, once it is told to."""

    def inboxd_send_logprobs(self) -> None:
        del self.model_runner.sample_tokens
