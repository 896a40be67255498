"""Workers that can't do what they are asked beside reading pages, or do it as vLLM does."""

from __future__ import annotations

import torch
from torch.profiler import ProfilerActivity, profile
from vllm import ir

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


class WrappingWorker(InboxdWorker):
    """Has vLLM's own operations opaque to torch's compiler, as they are on a GPU."""

    def inboxd_wrap(self) -> None:
        ir.set_default_torch_wrap(True)

    def inboxd_norms(self) -> int:
        """How many of vLLM's norms the vision tower calls for a page."""
        tower = self.model_runner.model.vision_tower
        page = torch.zeros(3, 280, 280, dtype=next(tower.parameters()).dtype)
        with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU]) as seen:
            tower([page])
        return sum(event.count for event in seen.key_averages() if event.key == "vllm_ir::rms_norm")
