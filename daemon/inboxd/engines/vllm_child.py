"""The process that vLLM runs in: takes pages from the daemon over a socket, and answers with text.

Started as `python -m inboxd.engines.vllm_child SOCKET DAEMON` with the number of an open socket and the daemon's
process id. It leads a process group of its own, with vLLM's engine core and workers in it, and takes them along
when the daemon is gone: left alone, they would hold the whole GPU for ever.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Coroutine, Mapping
from typing import Any

import numpy as np

from inboxd.engines import vllm_wire as wire


class Child:
    """The daemon's vLLM, from the order to start to the last answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._engine: Any = None
        self._prompts: dict[str, str] = {}
        self._work: dict[int, asyncio.Task[None]] = {}
        self.kv_used = 0.0
        self.preemptions = 0

    async def serve(self) -> None:
        """Obey until the daemon hangs up; then end vLLM, so that it leaves no shared memory behind."""
        try:
            while True:
                order, pixels = await wire.next_order(self._reader)
                match order:
                    case wire.Start():
                        await self._start(order)
                    case wire.Read():
                        self._begin(order.number, self._read(order, pixels))
                    case wire.Call():
                        self._begin(order.number, self._call(order))
                    case wire.Forget():
                        if (task := self._work.get(order.number)) is not None:
                            task.cancel()
        except (asyncio.IncompleteReadError, ConnectionError):
            if self._engine is not None:
                if (listener := self._engine.output_handler) is not None:
                    listener.cancel()  # else it reports the engine's death as a failure
                self._engine.shutdown()

    def _begin(self, number: int, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._answered(number, work))
        self._work[number] = task
        task.add_done_callback(lambda _: self._work.pop(number))

    async def _answered(self, number: int, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; whatever becomes of it, the daemon is told, for it waits as long as it takes."""
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            await work
        except EngineDeadError as error:
            wire.send(self._writer, wire.Dead(str(error)))
        except Exception as error:  # noqa: BLE001 - a failed method of a worker is a plain Exception in vLLM
            wire.send(self._writer, wire.Failed(number, f"vLLM failed: {type(error).__name__}: {error}"))

    async def _start(self, order: wire.Start) -> None:
        try:
            self._engine = _build(order.arguments, self)
            pairs = await self._engine.collective_rpc("inboxd_pids")
            if len(pairs) == 1:  # with several a call waits for all of them, and they for it
                await self._engine.collective_rpc("inboxd_keep_logprobs")
        except Exception as error:  # noqa: BLE001 - vLLM, torch and transformers raise what they like
            wire.send(self._writer, wire.Unusable(f"{type(error).__name__}: {error}"))
            return
        cache = self._engine.vllm_config.cache_config
        pids = {os.getpid()} | {pid for pair in pairs for pid in pair}
        wire.send(self._writer, wire.Started(int(cache.num_gpu_blocks * cache.block_size), tuple(sorted(pids))))

    async def _read(self, order: wire.Read, raw: bytes) -> None:
        from vllm.exceptions import VLLMUnprocessableEntityError, VLLMValidationError
        from vllm.v1.engine.exceptions import EngineGenerateError

        # What vLLM says of a prompt that it will not take; the first was all of them before 0.32.
        refusals = (ValueError, VLLMValidationError, VLLMUnprocessableEntityError)
        # A copy, because vLLM wants pixels that can be written to.
        pixels = np.frombuffer(bytearray(raw), np.uint8).reshape(order.height, order.width, 3)
        try:
            output = await self._generate(order, pixels)
        except refusals as error:
            reply: wire.Reply = wire.Failed(order.number, f"vLLM refuses the page: {error}", refused=True)
        except EngineGenerateError as error:
            reply = wire.Failed(order.number, f"vLLM failed on this page: {error.__cause__ or error}")
        else:
            reply = await self._answer(order.number, output)
        wire.send(self._writer, reply)

    async def _generate(self, order: wire.Read, pixels: np.ndarray) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling = SamplingParams(
            temperature=order.temperature,
            top_p=order.top_p,
            max_tokens=order.max_tokens,
            ignore_eos=order.ignore_eos,
            logprobs=0,  # the chosen token's alone
            flat_logprobs=True,
            detokenize=False,  # once at the end costs less than at every step
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        if order.prompt not in self._prompts:
            self._prompts[order.prompt] = _prompt(self._engine.get_tokenizer(), order.prompt)
        page = {"prompt": self._prompts[order.prompt], "multi_modal_data": {"image": pixels}}
        # Rendered first, because only that happens on the renderer's threads in every version of vLLM.
        (rendered,) = await self._engine.renderer.render_cmpl_async([page])
        answers = self._engine.generate(rendered, sampling, _name(order.number))
        return [answer async for answer in answers][-1]

    async def _answer(self, number: int, output: Any) -> wire.Reply:
        answer = output.outputs[0]
        if answer.finish_reason not in {"stop", "length", "repetition"}:
            return wire.Failed(number, f"vLLM gave the page up: {answer.finish_reason}")
        tokens, logprob = list(answer.token_ids), answer.cumulative_logprob
        if not answer.logprobs:  # they were kept in the worker
            (logprob,) = await self._engine.collective_rpc("inboxd_logprob", args=(_name(number), len(tokens)))
        return wire.Answer(
            number=number,
            text=self._engine.get_tokenizer().decode(tokens, skip_special_tokens=True),
            finish=answer.finish_reason,
            tokens_in=len(output.prompt_token_ids),
            tokens_out=len(tokens),
            logprob=logprob,
            first_token_s=output.metrics.first_token_latency,
        )

    async def _call(self, order: wire.Call) -> None:
        answers = await self._engine.collective_rpc(order.method, args=order.arguments)
        wire.send(self._writer, wire.Called(order.number, tuple(answers), self.kv_used, self.preemptions))


def _name(number: int) -> str:
    """A page's name in vLLM."""
    return f"page-{number}"


def _prompt(tokenizer: Any, text: str) -> str:
    """The prompt for one image and perhaps a text, as the model's own chat template has it."""
    content = [{"type": "image"}, *([{"type": "text", "text": text}] if text else [])]
    prompt: str = tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    return prompt


def _build(arguments: Mapping[str, Any], child: Child) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.metrics.loggers import StatLoggerBase

    class Meter(StatLoggerBase):  # type: ignore[misc]  # vLLM ships no types
        """Keeps the scheduler's last figures; vLLM's own loggers stay off."""

        def __init__(self, *_: Any) -> None:
            pass

        def record(self, scheduler_stats: Any, iteration_stats: Any, *_: Any, **__: Any) -> None:
            if scheduler_stats is not None:
                child.kv_used = scheduler_stats.kv_cache_usage
            if iteration_stats is not None:
                child.preemptions += iteration_stats.num_preempted_reqs

        def log_engine_initialized(self) -> None:
            pass

    return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments, disable_log_stats=True), stat_loggers=[Meter])


def _end_with(daemon: int) -> None:
    """End the whole process group when the daemon is gone, also while vLLM loads and nobody listens."""
    try:
        alive: int | None = os.pidfd_open(daemon)
    except ProcessLookupError:
        alive = None

    def wait() -> None:
        if alive is not None:
            select.select([alive], [], [])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, name="daemon-watch", daemon=True).start()


async def _main(number: int) -> None:
    connection = socket.socket(fileno=number)
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=wire.BUFFER)
    await Child(reader, writer).serve()


if __name__ == "__main__":
    _end_with(int(sys.argv[2]))
    asyncio.run(_main(int(sys.argv[1])))
    os.killpg(0, signal.SIGKILL)
