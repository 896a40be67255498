"""What PyTorch's allocator and the driver say while memory is cached, and while it is broken into pieces.

    python bench/fragmentation.py            # needs torch and an NVIDIA GPU; about 20 s

Four situations, with PyTorch's allocator as it is and with expandable segments: an engine at work on batches of varying
size, the same after one oversized batch, small survivors scattered between large tensors, and the cache emptied.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

GIB, MIB = 1024**3, 1024**2
MODES = ("", "expandable_segments:True")


def report(torch: Any, what: str) -> None:
    import pynvml

    pynvml.nvmlInit()
    driver = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0))
    stats = torch.cuda.memory_stats()
    reserved, allocated = stats["reserved_bytes.all.current"], stats["allocated_bytes.all.current"]
    peak, split = stats["allocated_bytes.all.peak"], stats["inactive_split_bytes.all.current"]
    slack, ours = reserved - allocated, max(0, reserved - peak)
    articles = (driver.total - driver.free - driver.used) / driver.total
    print(
        f"| {what:<40} | {reserved / GIB:4.1f} | {allocated / GIB:4.1f} | {peak / GIB:4.1f} | {split / GIB:4.2f} "
        f"| {slack / reserved:5.1%} | {split / reserved:5.1%} | **{ours / reserved:5.1%}** | {articles:.1%} |"
    )


def situations(mode: str) -> None:
    import torch

    chance = random.Random(7)
    print(f"\n{mode or 'the allocator as it is'}\n")
    print(
        "| situation | reserved | allocated | peak | inactive split | slack | split | **ours** | articles | retries |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    keys = torch.empty(12 * GIB, dtype=torch.uint8, device="cuda")

    def batch(megabytes: int) -> list[object]:
        """Activations of a forward pass: ever other sizes, some of them alive together."""
        alive: list[object] = []
        for _ in range(24):
            alive.append(torch.empty(chance.randrange(1, megabytes) * MIB, dtype=torch.uint8, device="cuda"))
            if len(alive) > 4:
                del alive[chance.randrange(len(alive))]
        return alive

    for _ in range(300):
        held = batch(250)
    report(torch, "at work, in the middle of a batch")
    del held
    report(torch, "at work, between batches")
    held = batch(1500)
    del held
    for _ in range(100):
        batch(250)
    report(torch, "after one oversized batch")
    torch.cuda.empty_cache()
    report(torch, "the cache emptied")

    survivors = []
    for _ in range(400):
        held = batch(250)
        survivors.append(torch.empty(chance.randrange(2, 12) * MIB, dtype=torch.uint8, device="cuda"))
        del held
    # A need that grows a little each time fits none of the holes that the survivors leave.
    for size in range(250, 1200, 10):
        held = [torch.empty(size * MIB, dtype=torch.uint8, device="cuda")]
        survivors.append(torch.empty(3 * MIB, dtype=torch.uint8, device="cuda"))
        del held
    report(torch, "small survivors between large tensors")
    torch.cuda.empty_cache()
    report(torch, "the cache emptied, survivors still there")
    del keys


if __name__ == "__main__":
    if len(sys.argv) > 1:
        situations(sys.argv[1] if sys.argv[1] != "-" else "")
    else:
        for mode in MODES:
            environment = {**os.environ, "PYTORCH_ALLOC_CONF": mode, "PYTORCH_CUDA_ALLOC_CONF": mode}
            subprocess.run([sys.executable, __file__, mode or "-"], env=environment, check=True)
