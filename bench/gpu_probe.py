"""What bench/gpu.py runs inside vLLM's engine process: times the vision tower, changes it, and turns knobs live."""

from __future__ import annotations

import sys
from types import FrameType, MethodType
from typing import Any

from gpu_trace import Trace

from inboxd.engines.vllm_worker import InboxdWorker

LINEARS = ("attention.qkv_proj", "attention.o_proj", "feed_forward.gate_up_proj", "feed_forward.down_proj")
CHANGED = (*LINEARS, "attention.attn", "attention_norm", "ffn_norm")


class Probe(Trace, InboxdWorker):
    """`InboxdWorker` with the instruments of the bench."""

    def probe_tower(self, height: int, width: int, counts: tuple[int, ...]) -> dict[str, Any]:
        """Milliseconds of the vision tower for so many pages: as it is, compiled, compiled with FP8 matrices."""
        import torch

        found: dict[str, Any] = {}
        device = next(self.model_runner.model.vision_tower.parameters()).device
        dtype = next(self.model_runner.model.vision_tower.parameters()).dtype
        generator = torch.Generator(device=device).manual_seed(0)
        pages = [
            torch.randn(3, height, width, device=device, dtype=dtype, generator=generator) for _ in range(max(counts))
        ]
        self._spread_weights(generator)
        with torch.inference_mode():
            plain = torch.cat(list(self._tower(pages[:1]))).float()
            found["plain"] = {count: self._time(pages[:count]) for count in counts}
            found["plain_kernels"] = self._kernels(pages[:2])
            for name, change in (("compiled", self.inboxd_compile_vision), ("fp8", self.probe_fp8_tower)):
                try:
                    change()
                    other = torch.cat(list(self._tower(pages[:1]))).float()
                    found[f"{name}_error"] = float((other - plain).norm() / plain.norm())
                    found[name] = {count: self._time(pages[:count]) for count in counts}
                    found[f"{name}_kernels"] = self._kernels(pages[:2])
                except Exception as error:  # noqa: BLE001 - one variant's failure must not cost the others
                    found[name] = repr(error)[:300]
        self.probe_plain_tower()
        return found

    def probe_plain_tower(self) -> None:
        """Undo what was done to the vision tower."""
        import torch

        for block in self._blocks():
            block.__dict__.pop("forward", None)
            for part in map(block.get_submodule, CHANGED):
                part.__dict__.pop("forward", None)
        torch._dynamo.reset()

    def probe_fp8_tower(self) -> None:
        """The tower's matrices in FP8, scaled by row, with compiled blocks."""

        self.probe_plain_tower()
        for block in self._blocks():
            for linear in map(block.get_submodule, LINEARS):
                _to_fp8(linear)
        self.inboxd_compile_vision()

    def probe_budget(self, tokens: int) -> int:
        """Lower the tokens a step of the running scheduler, and the image encoder's budget with it."""
        scheduler = _scheduler()
        scheduler.max_num_scheduled_tokens = scheduler.max_num_encoder_input_tokens = tokens
        return tokens

    def probe_send_logprobs(self) -> None:
        """From now on log-probabilities go to the front end with each token, as vLLM has it."""
        del self.model_runner.sample_tokens

    def probe_no_logprobs(self) -> None:
        """From now on no page's log-probabilities are worked out."""
        scheduler = _scheduler()
        add = scheduler.add_request

        def plainly(request: Any) -> None:
            request.sampling_params.logprobs = None
            add(request)

        scheduler.add_request = plainly

    def _tower(self, pages: list[Any]) -> Any:
        return self.model_runner.model.vision_tower(pages)

    def _blocks(self) -> Any:
        return self.model_runner.model.vision_tower.transformer.layers

    def _spread_weights(self, generator: Any) -> None:
        """Dummy weights are all but zero, which flatters rates and errors."""
        for name, parameter in self.model_runner.model.vision_tower.named_parameters():
            if "norm" in name or name.startswith("ln_"):
                parameter.data.fill_(1.0)
            else:
                parameter.data.normal_(0, 0.02, generator=generator)

    def _time(self, pages: list[Any]) -> float:
        import torch

        if not torch.cuda.is_initialized():
            self._tower(pages)
            return 0.0
        times = []
        for _ in range(5):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            self._tower(pages)
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
        return round(sorted(times)[2], 2)

    def _kernels(self, pages: list[Any]) -> list[tuple[str, float]]:
        """The kernels that take most of the time, in ms a page."""
        import torch
        from torch.profiler import ProfilerActivity, profile

        if not torch.cuda.is_initialized():
            return []
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            self._tower(pages)
            torch.cuda.synchronize()
        rows = [(event.key[:90], event.self_device_time_total / 1e3 / len(pages)) for event in seen.key_averages()]
        return [(name, round(ms, 2)) for name, ms in sorted(rows, key=lambda row: -row[1])[:12]]


def _scheduler() -> Any:
    """The engine core's, which calls us: it stands further up on the stack."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        scheduler = getattr(frame.f_locals.get("self"), "scheduler", None)
        if scheduler is not None and hasattr(scheduler, "max_num_scheduled_tokens"):
            return scheduler
        frame = frame.f_back
    raise RuntimeError("no scheduler on the stack")


def _to_fp8(linear: Any) -> None:
    """Give a vLLM linear layer a copy of its weights in FP8, scaled by row, and a forward that multiplies with it."""
    import torch

    scale = (linear.weight.abs().amax(dim=1, keepdim=True).float() / 448).clamp(min=1e-12)
    linear.small = (linear.weight / scale).to(torch.float8_e4m3fn).t()
    linear.row = scale.t().contiguous()
    linear.forward = MethodType(_fp8_product, linear)  # a method: see `inboxd_compile_vision`


def _fp8_product(linear: Any, x: Any) -> Any:
    """Stands in for a vLLM linear layer's forward: returns (output, None)."""
    import torch

    flat = x.reshape(-1, x.shape[-1])
    scale = (flat.abs().amax(dim=1, keepdim=True).float() / 448).clamp(min=1e-12)
    small = (flat / scale).to(torch.float8_e4m3fn)
    product = torch._scaled_mm(
        small, linear.small, scale_a=scale, scale_b=linear.row, out_dtype=x.dtype, use_fast_accum=True
    )
    return product.reshape(*x.shape[:-1], -1), None
