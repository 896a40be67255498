"""Stands in for vLLM in its process: starts at once, reads "text" from any page, fails at what FAKE_VLLM_FAILS names.

That may be a method of the worker; "black", a page whose middle is black; "after-black", each page from such a one on;
"pages", every page; "loading", which never ends; or "compiling", unless nothing is to be. Sockets lie where vLLM has
its own.

One module under all the names that `inboxd.engines.vllm_child` imports. Put its folder on PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

__path__: list[str] = []
for _name in (
    *("engine", "engine.arg_utils", "exceptions", "sampling_params", "v1", "v1.engine", "v1.engine.async_llm"),
    *("v1.engine.exceptions", "v1.metrics", "v1.metrics.loggers"),
):
    sys.modules[f"vllm.{_name}"] = sys.modules[__name__]

FAILS = os.environ.get("FAKE_VLLM_FAILS", "").split()
ANSWERS = {
    "inboxd_pids": (os.getpid(), os.getpid()),
    "inboxd_memory": {"torch_reserved": 2},
    "inboxd_relieve": 3 * 2**20,
    "inboxd_compile_vision": 4,
    "inboxd_keep_logprobs": None,
    "inboxd_logprob": -0.1,
}


class EngineDeadError(Exception):
    pass


class EngineGenerateError(Exception):
    pass


class VLLMValidationError(Exception):
    pass


class VLLMUnprocessableEntityError(Exception):
    pass


class StatLoggerBase:
    pass


class RequestOutputKind:
    FINAL_ONLY = 2


class AsyncEngineArgs:
    def __init__(self, **given: Any) -> None:
        self.given = given


class SamplingParams(AsyncEngineArgs):
    pass


class AsyncLLM:
    output_handler = None
    vllm_config = SimpleNamespace(cache_config=SimpleNamespace(num_gpu_blocks=100, block_size=16))

    def __init__(self) -> None:
        self._broken = "pages" in FAILS
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(f"{os.environ.get('VLLM_RPC_BASE_PATH', tempfile.gettempdir())}/{uuid4()}")

    @classmethod
    def from_engine_args(cls, arguments: AsyncEngineArgs, **_: Any) -> AsyncLLM:
        while "loading" in FAILS:
            signal.pause()
        if "compiling" in FAILS and not arguments.given["enforce_eager"]:
            configuration = json.loads(Path(os.environ["VLLM_LOGGING_CONFIG_PATH"]).read_bytes())
            words = f"torch._dynamo.exc.BackendCompilerFailed: backend='{cls}' raised:\nRuntimeError: no such kernel\n"
            with Path(configuration["handlers"]["file"]["filename"]).open("a") as log:
                log.write(words)
            raise RuntimeError("Engine core initialization failed. See root cause above.")
        return cls()

    @property
    def renderer(self) -> AsyncLLM:
        return self

    async def collective_rpc(self, method: str, args: tuple[Any, ...] = ()) -> list[Any]:
        if method in FAILS:  # in vLLM's own words, and of no other type
            raise Exception(f"Call to collective_rpc method failed: no {method} here")
        return [ANSWERS[method]]

    async def render_cmpl_async(self, prompts: list[Any]) -> list[Any]:
        (prompt,) = prompts
        image = prompt["multi_modal_data"]["image"]
        black = not image[image.shape[0] // 2, image.shape[1] // 2].any()
        self._broken |= black and "after-black" in FAILS
        if self._broken or (black and "black" in FAILS):
            raise RuntimeError("the processor fell over")
        return prompts

    async def generate(self, *_: Any) -> AsyncIterator[Any]:
        answer = SimpleNamespace(finish_reason="stop", token_ids=[1, 2], cumulative_logprob=0.0, logprobs=[])
        metrics = SimpleNamespace(first_token_latency=0.1)
        yield SimpleNamespace(outputs=[answer], prompt_token_ids=[1], metrics=metrics)

    def get_tokenizer(self) -> Any:
        return SimpleNamespace(apply_chat_template=lambda *_, **__: "", decode=lambda *_, **__: "text")

    def shutdown(self) -> None:
        pass
