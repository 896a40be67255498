"""A worker that fails when it is asked for its memory, and otherwise does as vLLM does where we do not."""

from __future__ import annotations

import torch
from torch._dynamo.utils import counters
from torch.profiler import ProfilerActivity, profile
from vllm import ir

from inboxd.engines.vllm_worker import InboxdWorker


class OddWorker(InboxdWorker):
    """In vLLM's own process, as `worker_extension_cls`."""

    def inboxd_memory(self) -> dict[str, int]:
        raise ZeroDivisionError("the worker fell over")

    def inboxd_relieve(self) -> int:
        raise ZeroDivisionError("the worker fell over")

    def inboxd_send_logprobs(self) -> None:
        """From now on log-probabilities go to the front end with each token."""
        del self.model_runner.sample_tokens

    def inboxd_wrap(self) -> None:
        """From now on vLLM's own operations are opaque to torch's compiler, as they are on a GPU."""
        ir.set_default_torch_wrap(True)

    def inboxd_graphs(self) -> int:
        """How many pieces of code torch has compiled in this process."""
        return counters["stats"]["unique_graphs"]

    def inboxd_norms(self) -> int:
        """How many of vLLM's norms the vision tower calls for a page."""
        tower = self.model_runner.model.vision_tower
        page = torch.zeros(3, 280, 280, dtype=next(tower.parameters()).dtype)
        with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU]) as seen:
            tower([page])
        return sum(event.count for event in seen.key_averages() if event.key == "vllm_ir::rms_norm")
