"""bench/gpu.py: vLLM without us: its own library call, the settings of the articles, and its HTTP server."""

from __future__ import annotations

import asyncio
import base64
import io
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from gpu_measure import Bench, Gauge, cpu, measuring, run_record

PROMPT = "<|im_start|>system<|im_end|>\n<|im_start|>user\n<|image_pad|><|im_end|>\n<|im_start|>assistant\n"


def bare(bench: Bench) -> None:
    """vLLM's own LLM.generate with its defaults, on the same pages in memory; then one page at a time."""
    from vllm import LLM, SamplingParams

    began = time.monotonic()
    llm = LLM(
        model=str(bench.model),
        load_format="dummy",
        dtype="float32" if bench.dry else "bfloat16",
        max_model_len=8192,
        limit_mm_per_prompt={"image": 1},
        max_num_seqs=8 if bench.dry else 256,
        enforce_eager=bench.dry,
        disable_log_stats=False,
        seed=0,
        **({} if bench.dry else {"gpu_memory_utilization": 0.9}),
    )
    bench.record("load", seconds=round(time.monotonic() - began, 1))

    def generate(name: str, pages: list[np.ndarray], together: int, lengths: list[int], gauge: Gauge) -> None:
        requests = [{"prompt": PROMPT, "multi_modal_data": {"image": page}} for page in pages]
        wanted = [SamplingParams(temperature=0.2, top_p=0.9, ignore_eos=True, max_tokens=length) for length in lengths]
        ends, start, spent = [], time.monotonic(), cpu()
        for first in range(0, len(pages), together):
            some = slice(first, first + together)
            answers = llm.generate(requests[some], wanted[some], use_tqdm=False)
            ends += [answer.metrics.last_token_ts for answer in answers]
        run_record(bench, name, ends, start, sum(lengths), gauge, cpu() - spent)

    with measuring() as gauge:
        generate("warm-up", bench.in_memory(16), 16, [24] * 16, gauge)
        generate("bare vLLM from memory", bench.in_memory(bench.pages), bench.pages, bench.lengths(bench.pages), gauge)
        generate("bare vLLM, one page at a time", bench.in_memory(4), 1, [700] * 4, gauge)


def articles(bench: Bench) -> None:
    """The articles' settings: eager, half precision, prefix caching, greedy with a penalty, four pages at once."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=str(bench.model),
        load_format="dummy",
        dtype="float32" if bench.dry else "half",
        max_model_len=4096,
        max_num_batched_tokens=8192,
        enable_prefix_caching=True,
        enforce_eager=True,
        limit_mm_per_prompt={"image": 1},
        max_num_seqs=8 if bench.dry else 256,
        disable_log_stats=False,
        **({} if bench.dry else {"gpu_memory_utilization": 0.85}),
    )
    lengths = [min(length, 1800) for length in bench.lengths(8)]
    requests = [{"prompt": PROMPT, "multi_modal_data": {"image": page}} for page in bench.in_memory(8)]
    wanted = [
        SamplingParams(temperature=0.0, repetition_penalty=1.1, ignore_eos=True, max_tokens=length)
        for length in lengths
    ]
    with measuring() as gauge:
        llm.generate(requests[:4], [SamplingParams(max_tokens=8)] * 4, use_tqdm=False)
        ends, start, spent = [], time.monotonic(), cpu()
        for first in range(0, len(requests), 4):
            some = slice(first, first + 4)
            answers = llm.generate(requests[some], wanted[some], use_tqdm=False)
            ends += [answer.metrics.last_token_ts for answer in answers]
        run_record(bench, "the articles' settings", ends, start, sum(lengths), gauge, cpu() - spent)


def http(bench: Bench) -> None:
    """vLLM's own server with the flags of the model's card, and a client that sends each page as PNG in base64."""
    port = 8137
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--port", str(port), "--model"]
    command += [str(bench.model), "--load-format", "dummy", "--served-model-name", "ocr", "--max-model-len", "8192"]
    command += ["--limit-mm-per-prompt", '{"image": 1}', "--mm-processor-cache-gb", "0", "--no-enable-prefix-caching"]
    command += ["--max-num-seqs", "8" if bench.dry else "256", "--max-num-batched-tokens", "16384"]
    command += ["--dtype", "float32", "--enforce-eager"] if bench.dry else ["--gpu-memory-utilization", "0.9"]
    with (bench.out / "http-server.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)  # in the section's group: ends with it
        try:
            with measuring() as gauge, ProcessPoolExecutor(4 if bench.dry else 12) as encoders:
                asyncio.run(_ask_all(bench, f"http://127.0.0.1:{port}", gauge, encoders, server))
        finally:
            server.kill()
            server.wait()


async def _ask_all(bench: Bench, url: str, gauge: Gauge, encoders: ProcessPoolExecutor, server: Any) -> None:
    import aiohttp

    pages = bench.in_memory(bench.pages)
    few = 2 if bench.dry else 8
    ends: list[float] = []
    loop = asyncio.get_running_loop()
    limits = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, connector=limits, timeout=aiohttp.ClientTimeout(total=None)) as client:
        began = time.monotonic()
        while True:
            assert server.poll() is None, "the server ended: see http-server.log"
            try:
                async with client.get("/health") as answer:
                    if answer.status == 200:
                        break
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.5)
        bench.record("load", seconds=round(time.monotonic() - began, 1))

        async def one(page: np.ndarray, length: int, gate: asyncio.Semaphore) -> None:
            async with gate:
                image = await loop.run_in_executor(encoders, _data_url, page)
                body = {
                    "model": "ocr",
                    "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": image}}]}],
                    "max_tokens": length,
                    "temperature": 0.2,
                    "top_p": 0.9,
                    "ignore_eos": True,
                }
                async with client.post("/v1/chat/completions", json=body) as answer:
                    told = await answer.json()
                    assert answer.status == 200, told
            ends.append(time.monotonic())

        async def run(name: str, pages: list[np.ndarray], lengths: list[int], together: int) -> None:
            ends.clear()
            gate, start, spent = asyncio.Semaphore(together), time.monotonic(), cpu()
            await asyncio.gather(*(one(page, length, gate) for page, length in zip(pages, lengths, strict=True)))
            run_record(bench, name, ends, start, sum(lengths), gauge, cpu() - spent)

        await run("HTTP, warm-up", pages[:16], [16] * 16, 16)
        await run("client of vLLM's HTTP server", pages, bench.lengths(len(pages)), few * 32)
        some = pages[: 6 * few]
        await run("the same, as few at once as in the articles", some, bench.lengths(len(some)), few)


def _data_url(page: np.ndarray) -> str:
    from PIL import Image

    with io.BytesIO() as buffer:
        Image.fromarray(page).save(buffer, "PNG")
        return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
