"""What runs inside vLLM's worker process: memory figures, giving memory back, log-probabilities, compiling the tower.

vLLM mixes `InboxdWorker` into its worker class (`worker_extension_cls`); the engine calls its methods by name.
"""

from __future__ import annotations

import gc
import os
from types import MethodType
from typing import Any

KEPT = 1024
"""Pages whose log-probabilities are kept: more than decode together, so that only those given up are forgotten."""


class InboxdWorker:
    """Mixed into vLLM's worker; every name starts with `inboxd_` because a clash would stop the engine."""

    model_runner: Any  # the worker's own
    inboxd_kept: dict[str, list[float]]

    def inboxd_pids(self) -> tuple[int, int]:
        """This worker's process and its parent's, which is the engine core where that is a process of its own."""
        return os.getpid(), os.getppid()

    def inboxd_memory(self) -> dict[str, int]:
        """The allocator's figures in bytes; empty where there is no CUDA."""
        import torch

        if not torch.cuda.is_initialized():
            return {}
        stats = torch.cuda.memory_stats()
        return {
            "torch_allocated": stats["allocated_bytes.all.current"],
            "torch_reserved": stats["reserved_bytes.all.current"],
            "torch_peak": stats["allocated_bytes.all.peak"],
            "torch_inactive_split": stats["inactive_split_bytes.all.current"],
            "torch_alloc_retries": stats["num_alloc_retries"],
            "torch_ooms": stats["num_ooms"],
        }

    def inboxd_relieve(self) -> int:
        """Give cached blocks back to the driver; returns how many bytes that were."""
        import torch

        gc.collect()
        if not torch.cuda.is_initialized():
            return 0
        before: int = torch.cuda.memory_reserved()
        torch.cuda.empty_cache()
        after: int = torch.cuda.memory_reserved()
        return before - after

    def inboxd_keep_logprobs(self) -> None:
        """From now on log-probabilities stay here, token by token, until a page is done and they are asked for.

        vLLM sends three arrays for each token to its front end, which is most of the work of a step's message
        (docs/tuning.md).
        """
        sample, self.inboxd_kept = self.model_runner.sample_tokens, {}

        def sample_tokens(*arguments: Any, **named: Any) -> Any:
            result = sample(*arguments, **named)
            if not hasattr(result, "get_output"):
                return self.inboxd_kept_back(result)
            get = result.get_output  # still being worked out on the GPU
            result.get_output = lambda: self.inboxd_kept_back(get())
            return result

        self.model_runner.sample_tokens = sample_tokens

    def inboxd_kept_back(self, output: Any) -> Any:
        """A step's output, a row for each page in it, without its log-probabilities."""
        if output is None or output.logprobs is None:
            return output
        chosen, output.logprobs = output.logprobs.logprobs[:, 0].tolist(), None
        for page, tokens, logprob in zip(output.req_ids, output.sampled_token_ids, chosen, strict=False):
            if tokens:  # none where the prompt is not all read yet
                kept = self.inboxd_kept.pop(page, [])
                kept.append(logprob)
                self.inboxd_kept[page] = kept  # at the end: the first is the one untouched for longest
        while len(self.inboxd_kept) > KEPT:
            del self.inboxd_kept[next(iter(self.inboxd_kept))]
        return output

    def inboxd_logprob(self, page: str, tokens: int) -> float | None:
        """Log-probability of a page's first `tokens` tokens together, and forget it; None if it is not known.

        vLLM may add something of its own to the page's name, and may have gone on for a token beyond the end.
        """
        for name in self.inboxd_kept:
            if name == page or name.startswith(f"{page}-"):
                return sum(self.inboxd_kept.pop(name)[:tokens])
        return None

    def inboxd_compile_vision(self) -> int:
        """Compile the vision tower's blocks, one piece of code for all and for any page size; returns how many.

        Attention stays as it is: its kernel is best already, and vLLM 0.26 describes it wrongly to the compiler.
        """
        import torch

        blocks = self.model_runner.model.vision_tower.transformer.layers
        for block in blocks:
            for norm in (block.attention_norm, block.ffn_norm):
                norm.forward = MethodType(_rms_norm, norm)  # a method: torch compiles another callable anew for each
            attention = block.attention.attn
            attention.forward = torch.compiler.disable(attention.forward)
            block.forward = torch.compile(block.forward, dynamic=True)
        return len(blocks)


def _rms_norm(norm: Any, x: Any) -> Any:
    """Root mean square norm of the last axis (https://arxiv.org/abs/1910.07467), in x's dtype, for a compiler to fuse.

    vLLM's is one opaque operation to every compiler but its own, and nine kernels when it runs.
    """
    wide = x.float()
    return (wide * (wide.square().mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt()).to(x.dtype) * norm.weight
