"""What runs inside vLLM's worker process: memory figures, giving memory back, compiling the vision tower.

vLLM mixes `InboxdWorker` into its worker class (`worker_extension_cls`); the engine calls its methods by name.
"""

from __future__ import annotations

import gc
import os
from typing import Any


class InboxdWorker:
    """Mixed into vLLM's worker; every name starts with `inboxd_` because a clash would stop the engine."""

    model_runner: Any  # the worker's own

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

    def inboxd_compile_vision(self) -> int:
        """Compile the vision tower's blocks, one piece of code for all and for any page size; returns how many.

        Attention stays as it is: its kernel is best already, and vLLM 0.26 describes it wrongly to the compiler.
        """
        import torch

        blocks = self.model_runner.model.vision_tower.transformer.layers
        for block in blocks:
            attention = block.attention.attn
            attention.forward = torch.compiler.disable(attention.forward)
            block.forward = torch.compile(block.forward, dynamic=True)
        return len(blocks)
