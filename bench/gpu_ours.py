"""bench/gpu.py: our engine fed from memory, its knobs, and the tiny checkpoint's text."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpu_pages
import msgspec
import numpy as np
from gpu_measure import Bench, Gauge, cpu, measuring, run_record

TINY_PAGES = 200
TESTS = Path(__file__).resolve().parents[1] / "tests" / "vllm_cpu"


class Forced:
    """Makes a VllmEngine write as many tokens as the page is due, whatever the dummy weights say."""

    TEXT = "\n".join(gpu_pages.text(0, 40))

    def __new__(cls, engine: Any, lengths: list[int] | Iterator[int]) -> Any:
        engine.due = itertools.cycle(lengths) if isinstance(lengths, list) else lengths
        order, text = engine._order, engine._text

        def ordered(*arguments: Any) -> Any:
            return msgspec.structs.replace(order(*arguments), max_tokens=next(engine.due), ignore_eos=True)

        def answered(*arguments: Any) -> Any:
            return replace(text(*arguments), finish="stop", text=cls.TEXT)

        engine._order, engine._text = ordered, answered
        return engine


def build(settings: Any, lengths: list[int] | None = None) -> Any:
    """Our engine with the probe inside."""
    from inboxd.engines import vllm_local, vllm_plan

    def arguments(*given: Any) -> dict[str, Any]:
        return vllm_plan.arguments(*given) | {"worker_extension_cls": "gpu_probe.Probe"}

    vllm_local.arguments = arguments
    engine = vllm_local.create(settings)
    return Forced(engine, lengths) if lengths else engine


async def probe(engine: Any, method: str, *arguments: Any) -> Any:
    return (await engine._process.call(method, *arguments)).answers[0]


async def feed(
    bench: Bench,
    engine: Any,
    name: str,
    pages: list[np.ndarray],
    gauge: Gauge,
    window: int,
    lengths: list[int] | None = None,
) -> None:
    """Read the pages with `window` in flight, from memory."""
    from inboxd.model import PageImage, PageText

    gate = asyncio.Semaphore(window)
    ends: list[float] = []
    waits: list[float] = []
    tokens = 0

    async def one(pixels: np.ndarray) -> None:
        nonlocal tokens
        async with gate:
            answer = await engine.read(PageImage(pixels, pixels.shape[1], pixels.shape[0], 0.1))
        assert isinstance(answer, PageText), answer
        ends.append(time.monotonic())
        waits.append(answer.first_token_s or 0.0)
        tokens += answer.tokens_out or 0

    engine.due = itertools.cycle(lengths or bench.lengths(len(pages)))
    start, spent = time.monotonic(), cpu()
    await asyncio.gather(*map(one, pages))
    first = {"first_token_s": round(statistics.median(waits), 2)}
    run_record(bench, name, ends, start, tokens, gauge, cpu() - spent, window=window, **first)


def engine_section(runs: Callable[[Bench, Any, Gauge], Any], **profile: Any) -> Callable[[Bench], None]:
    def section(bench: Bench) -> None:
        async def live() -> None:
            engine = build(bench.settings(**profile), bench.lengths(bench.pages))
            began = time.monotonic()
            info = await engine.start()
            bench.record("load", seconds=round(time.monotonic() - began, 1), info=info.details, profile=profile)
            bench.say("loaded in", round(time.monotonic() - began, 1), info.details)
            with measuring() as gauge:
                await feed(bench, engine, "warm-up", bench.in_memory(16), gauge, 16)
                await runs(bench, engine, gauge)
            bench.record("memory", sample=await engine.memory())
            await engine.close()

        asyncio.run(live())

    return section


async def only(bench: Bench, engine: Any, gauge: Gauge) -> None:
    await feed(bench, engine, "engine from memory", bench.in_memory(bench.pages), gauge, engine.limits.pages_in_flight)
    await feed(bench, engine, "engine, one page at a time", bench.in_memory(4), gauge, 1)


async def orders(bench: Bench, engine: Any, gauge: Gauge) -> None:
    """What the order of admission could give at most: by length, which nobody knows beforehand."""
    pages, window = bench.in_memory(bench.pages), engine.limits.pages_in_flight
    lengths = bench.lengths(bench.pages)
    for name, order in (
        ("as they come", lengths),
        ("longest first", sorted(lengths, reverse=True)),
        ("shortest first", sorted(lengths)),
    ):
        await feed(bench, engine, name, pages, gauge, window, order)


async def fp8_tower(bench: Bench, engine: Any, gauge: Gauge) -> None:
    """The vision tower's matrices in FP8, on top of everything else."""
    pages, window = bench.in_memory(bench.pages), engine.limits.pages_in_flight
    await probe(engine, "probe_fp8_tower")
    await feed(bench, engine, "FP8 tower, warm-up", pages[:16], gauge, 16)
    await feed(bench, engine, "FP8 tower", pages, gauge, window)


async def trace(bench: Bench, engine: Any, gauge: Gauge) -> None:
    """Where the time goes in the middle of a run, and what log-probabilities cost, which only we ask for."""
    pages, window = bench.in_memory(bench.pages), engine.limits.pages_in_flight
    for name, then in (
        ("traced", "probe_send_logprobs"),
        ("traced, log-probabilities sent", "probe_no_logprobs"),
        ("traced, no log-probabilities", ""),
    ):
        work = asyncio.create_task(feed(bench, engine, name, pages, gauge, window))
        await asyncio.sleep(2 if bench.dry else 25)  # every seat is taken, and pages come and go
        await probe(engine, "trace_start")
        await asyncio.sleep(1 if bench.dry else 5)
        told = await probe(engine, "trace_stop")
        bench.record("trace", name=name, **told)
        bench.say("TRACE", name, json.dumps(told))
        await work
        if not then or bench.dry:  # on a CPU the workers are not in the scheduler's process
            return
        await probe(engine, then)


async def tower(bench: Bench, engine: Any, gauge: Gauge) -> None:
    """Milliseconds of the vision tower by itself, as it is and changed, and the kernels that take them."""
    del gauge
    size = (280, 560, (1, 2)) if bench.dry else (1540, 1092, (1, 2, 4, 7))
    bench.record("tower", **(told := await probe(engine, "probe_tower", *size)))
    bench.say("TOWER", json.dumps(told))


VARIANTS = (("compiled tower", "inboxd_compile_vision"), ("FP8 tower", "probe_fp8_tower"))
"""What can be done to the vision tower of a running engine; the second needs a GPU."""


async def knobs(bench: Bench, engine: Any, gauge: Gauge) -> None:
    """Tokens a step, then the vision tower: each changed on the running engine."""
    pages = bench.in_memory(bench.pages // 2)
    window = engine.limits.pages_in_flight
    for tokens in (32768, 16384, 8192):
        if not bench.dry:
            await probe(engine, "probe_budget", tokens)
        await feed(bench, engine, f"{tokens} tokens a step", pages, gauge, window)
    if not bench.dry:
        await probe(engine, "probe_budget", 16384)
    for name, method in VARIANTS:
        await probe(engine, method)
        await feed(bench, engine, f"{name}, warm-up", pages[:8], gauge, 8)
        await feed(bench, engine, name, pages, gauge, window)


def tiny(variants: bool, **profile: Any) -> Callable[[Bench], None]:
    """A model that really reads: its text from the batch and one by one, and with the tower changed."""

    def section(bench: Bench) -> None:
        sys.path.insert(0, str(TESTS))
        import pages as printed

        truths = ["\n".join(printed.lines(seed)) for seed in range(TINY_PAGES)]
        images = [printed.draw(truth.split("\n")) for truth in truths]

        async def live() -> None:
            engine = build(bench.settings("tiny", share=0.3, seats=64, **profile))
            info = await engine.start()

            async def texts(variant: str) -> list[str]:
                answers = await asyncio.gather(*map(engine.read, images))
                together = [answer.text for answer in answers]
                wrong = round(statistics.mean(map(printed.errors, together, truths)), 4)
                logprob = round(statistics.mean(answer.mean_logprob for answer in answers), 4)
                bench.record("text", name=variant, errors=wrong, mean_logprob=logprob)
                bench.say("TEXT", variant, "character errors", wrong, "mean logprob", logprob)
                return together

            together = await texts(bench.section)
            alone = [(await engine.read(image)).text for image in images[:10]]
            same = sum(map(str.__eq__, together, alone))
            bench.record("same", equal=same, of=len(alone), details=info.details)
            bench.say("pages alone equal to the same in the batch:", same, "of", len(alone))
            for variant, method in VARIANTS if variants and not bench.dry else ():
                await probe(engine, method)
                await texts(variant)
            bench.record("memory", sample=await engine.memory(), relieved=await engine.relieve())
            await engine.close()

        asyncio.run(live())

    return section
