"""Pages a second on a GPU: the whole daemon beside bare vLLM, its HTTP server and the settings of the articles.

    python bench/gpu.py --model FOLDER --out FOLDER [--budget SECONDS] SECTION ...

FOLDER holds config and tokenizer of LightOnOCR-2-1B; the weights are dummies and the output lengths forced, so that
every contender does the same work. Each section runs in a process of its own; one that fails or runs out of time
costs the others nothing. Results go to OUT/results.jsonl, the table to OUT/table.md.
docs/tuning.md explains the sections and keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "daemon")]

import gpu_bare  # noqa: E402
import gpu_ours  # noqa: E402
from gpu_measure import BEGAN, Bench  # noqa: E402

SECTIONS: dict[str, tuple[int, Callable[[Bench], None]]] = {  # name: least seconds it is worth starting with
    "tiny": (60, gpu_ours.tiny(variants=True)),
    "tiny-fp8": (50, gpu_ours.tiny(variants=False, kv="fp8")),
    "tower": (70, gpu_ours.engine_section(gpu_ours.tower)),
    "knobs": (150, gpu_ours.engine_section(gpu_ours.knobs, tokens=32768)),
    "engine": (80, gpu_ours.engine_section(gpu_ours.only)),
    "engine-fp8": (100, gpu_ours.engine_section(gpu_ours.only, kv="fp8")),
    "engine-compiled": (100, gpu_ours.engine_section(gpu_ours.only, vision="true")),
    "engine-best": (100, gpu_ours.engine_section(gpu_ours.only, kv="fp8", vision="true")),
    "daemon": (100, gpu_ours.daemon()),
    "daemon-compiled": (100, gpu_ours.daemon(vision="true")),
    "daemon-best": (100, gpu_ours.daemon(kv="fp8", vision="true")),
    "bare": (100, gpu_bare.bare),
    "articles": (40, gpu_bare.articles),
    "http": (80, gpu_bare.http),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="/tmp/model")
    parser.add_argument("--tiny", default=str(HERE.parent / "tests" / "tiny_lightonocr"))
    parser.add_argument("--out", default=os.environ.get("OUT", "bench-gpu"))
    parser.add_argument("--scratch", default="/tmp/inboxd-bench")
    parser.add_argument("--budget", type=float, default=540, help="seconds for everything")
    parser.add_argument("--pages", type=int, default=640)
    parser.add_argument("--dry", action="store_true", help="a few small pages on the CPU: tries the bench itself")
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []])
    options = parser.parse_args()
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    bench = Bench(options)
    bench.out.mkdir(parents=True, exist_ok=True)
    for name in options.sections:
        least, section = SECTIONS[name]
        left = options.budget - (time.monotonic() - BEGAN)
        bench.section = name
        if left < least:
            bench.say("skipped:", round(left), "s left")
            continue
        _in_a_fork(bench, section, left)
    table(bench)


ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_PIXTRAL_FA": "1",  # of the pack of vLLM 0.26 that the bench was first run with
    "VLLM_WORKER_MULTIPROCESSING_METHOD": "fork",  # spares the engine core the imports
    "TOKENIZERS_PARALLELISM": "false",
}


def _in_a_fork(bench: Bench, section: Callable[[Bench], None], seconds: float) -> None:
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        log = os.open(bench.out / "engine.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        sys.__stdout__ = os.fdopen(os.dup(1), "w", buffering=1)  # type: ignore[misc]  # only results go to the terminal
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = 0
        try:
            section(bench)
        except BaseException as error:  # noqa: BLE001 - reported, and the next section goes on
            traceback.print_exc()
            bench.record("failed", error=repr(error)[:500])
            bench.say("FAILED", repr(error)[:500])
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    while time.monotonic() - began < seconds:
        done, _ = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        bench.record("failed", error="out of time")
        bench.say("FAILED: out of time")
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _wait_for_gpu()
    bench.say("done in", round(time.monotonic() - began, 1), "s")


def _wait_for_gpu() -> None:
    """Until the driver has taken back what the last section held."""
    from inboxd.gpus import detect

    for _ in range(100):
        found = detect().gpus
        if not found or found[0].free > 0.95 * found[0].total:
            return
        time.sleep(0.2)


COLUMNS = (
    "section",
    "name",
    "pages",
    "pages_s",
    "middle_pages_s",
    "out_tokens_s",
    "wall_s",
    "gpu_busy",
    "watts",
    "cpu_s",
)


def table(bench: Bench) -> None:
    """Print every run, and the roofline for the same tokens."""
    from inboxd import profiles
    from inboxd.core import capacity

    rows = [json.loads(line) for line in (bench.out / "results.jsonl").read_text().splitlines()]
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    runs = [row for row in rows if row["kind"] == "run" and "warm-up" not in row["name"]]
    lines += ["| " + " | ".join(str(row.get(column, "")) for column in COLUMNS) + " |" for row in runs]
    shipped = profiles.load()
    shape, card = shipped.shapes["lightonocr"], shipped.gpu("h200").card
    assert card is not None
    for name, share in (("45 % / 60 %", {}), ("ceiling", {"arithmetic": 1.0, "bandwidth": 1.0})):
        for kv in (2, 1):
            page = capacity.expected(shape, card, 2173, 700, 256, kv_width=kv, **share)
            lines.append(f"roofline {name}, {kv} bytes a KV number: {page.pages_s:.1f} pages/s")
    (bench.out / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
