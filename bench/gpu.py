"""Pages a second on a GPU: the whole daemon beside bare vLLM, its HTTP server and the settings of the articles.

    python bench/gpu.py --model FOLDER --out FOLDER [--budget SECONDS] [--gpus 2] [SECTION ...]

FOLDER holds config and tokenizer of LightOnOCR-2-1B; the weights are dummies and the output lengths forced, so that
every contender does the same work. Each section runs in a process of its own; one that fails or runs out of time
costs the others nothing: the end of its log goes to OUT/failures.txt. Results go to OUT/results.jsonl, the table,
anew after each section, to OUT/table.md. Without sections, --gpus N runs those that compare N GPUs with one.
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
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "daemon")]

import gpu_bare  # noqa: E402
import gpu_daemon  # noqa: E402
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
    "trace": (280, gpu_ours.engine_section(gpu_ours.trace, vision="true")),
    "orders": (150, gpu_ours.engine_section(gpu_ours.orders, kv="fp8", vision="true")),
    "fp8-tower": (130, gpu_ours.engine_section(gpu_ours.fp8_tower, kv="fp8")),
    "daemon": (100, gpu_daemon.daemon()),
    "daemon-compiled": (100, gpu_daemon.daemon(vision="true")),
    "daemon-best": (100, gpu_daemon.daemon(kv="fp8", vision="true")),
    "daemon-wide": (100, gpu_daemon.daemon(kv="fp8", vision="true", seats=384)),
    "bare": (100, gpu_bare.bare),
    "articles": (40, gpu_bare.articles),
    "http": (80, gpu_bare.http),
}
for count in (1, 2, 4, 8):
    SECTIONS[f"gpus-{count}"] = (70, gpu_daemon.daemon(gpus=count, vision="true"))
    if count > 1:
        SECTIONS[f"gpus-{count}-killed"] = (90, gpu_daemon.daemon(gpus=count, vision="true", kill=True))
        SECTIONS[f"tensor-{count}"] = (90, gpu_daemon.daemon(gpus=count, tensor=count, vision="true"))
LIMIT_S = 400
"""Seconds that one section may take, however many are left."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="/tmp/model")
    parser.add_argument("--out", default=os.environ.get("OUT", "bench-gpu"))
    parser.add_argument("--scratch", default="/tmp/inboxd-bench")
    parser.add_argument("--budget", type=float, default=540, help="seconds for everything")
    parser.add_argument("--pages", type=int, default=640)
    parser.add_argument("--gpus", type=int, choices=(1, 2, 4, 8), default=1, help="without sections: compare so many")
    parser.add_argument("--dry", action="store_true", help="a few small pages on the CPU: tries the bench itself")
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []])
    options = parser.parse_args()
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[:2], os.environ.get("PYTHONPATH", "")])  # for vLLM's process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bench = Bench(options)
    bench.out.mkdir(parents=True, exist_ok=True)
    for name in options.sections or compared(options.gpus):
        least, section = SECTIONS[name]
        left = options.budget - (time.monotonic() - BEGAN)
        bench.section = name
        if left < least and not bench.dry:
            bench.say("skipped:", round(left), "s left")
            continue
        if not _in_a_fork(bench, section, left if bench.dry else min(left, LIMIT_S)):
            _last_words(bench)
        (bench.out / "table.md").write_text(table(bench))
    print(table(bench), flush=True)


def compared(gpus: int) -> list[str]:
    """The sections that compare so many GPUs with one."""
    return ["gpus-1", *([f"gpus-{gpus}", f"gpus-{gpus}-killed", f"tensor-{gpus}"] if gpus > 1 else [])]


ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_PIXTRAL_FA": "1",  # of the pack of vLLM 0.26 that the bench was first run with
    "VLLM_WORKER_MULTIPROCESSING_METHOD": "fork",  # spares the engine core the imports
    "TOKENIZERS_PARALLELISM": "false",
    # A program that dies in NVLink multicast can take GPUs along that others share; vLLM would use it between two.
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
    "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
    "VLLM_USE_NCCL_SYMM_MEM": "0",
}


def _in_a_fork(bench: Bench, section: Callable[[Bench], None], seconds: float) -> bool:
    """Run a section; says whether it came to its end."""
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        log = os.open(bench.out / f"{bench.section}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
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
    status = None
    try:
        while status is None and time.monotonic() - began < seconds:
            done, ended = os.waitpid(pid, os.WNOHANG)
            status = ended if done else None
            time.sleep(0.1)
        if status is None:
            bench.record("failed", error="out of time")
            bench.say("FAILED: out of time after", round(seconds), "s")
    finally:  # also when the bench itself is told to end: an engine left behind holds the whole GPU
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    if status is None:
        os.waitpid(pid, 0)
        gpu_daemon.partial(bench)
    _wait_for_gpus()
    bench.say("done in", round(time.monotonic() - began, 1), "s")
    return status == 0


def _last_words(bench: Bench) -> None:
    """The end of a failed section's logs, into OUT/failures.txt and onto the terminal."""
    logs = [
        bench.out / f"{bench.section}.log",
        *(log for state in bench.states() for log in sorted(state.glob("vllm*.log"))),
    ]
    for log in filter(Path.is_file, logs):
        end = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        with (bench.out / "failures.txt").open("a") as file:
            file.write(f"--- {bench.section}: {log.name}\n{end}\n")
        print(f"--- {log.name}\n{end}", flush=True)


def _wait_for_gpus() -> None:
    """Until the driver has taken back what the last section held."""
    from inboxd.gpus import detect

    for _ in range(100):
        if all(gpu.free > 0.95 * gpu.total for gpu in detect().gpus):
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


def table(bench: Bench) -> str:
    """Every run so far, what several GPUs came to, and the roofline for the same tokens."""
    from inboxd import profiles
    from inboxd.core import capacity

    results = bench.out / "results.jsonl"
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    runs = [row for row in rows if row["kind"] == "run" and "warm-up" not in row["name"]]
    lines += ["| " + " | ".join(str(row.get(column, "")) for column in COLUMNS) + " |" for row in runs]
    lines += ["", *_compared(rows), ""]
    shipped = profiles.load()
    shape, card = shipped.shapes["lightonocr"], shipped.gpu("h200").card
    assert card is not None
    for name, share in (("45 % / 60 %", {}), ("ceiling", {"arithmetic": 1.0, "bandwidth": 1.0})):
        for kv in (2, 1):
            page = capacity.expected(shape, card, 2173, 700, 256, kv_width=kv, **share)
            lines.append(f"roofline {name}, {kv} bytes a KV number: {page.pages_s:.1f} pages/s")
    return "\n".join(lines) + "\n"


def _compared(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Ratios to the section with one GPU, where the time went, and what became of a killed engine."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["section"], {})[row["kind"]] = row
    one = found.get("gpus-1", {}).get("run")
    for section, kinds in found.items():
        run, parts, daemon = kinds.get("run"), kinds.get("parts"), kinds.get("daemon")
        if run and one and section.startswith(("gpus-", "tensor-")) and run is not one:
            of = [(run[rate] or 0) / one[rate] for rate in ("pages_s", "middle_pages_s") if one[rate]]
            yield f"{section} : gpus-1 = {' whole, '.join(f'{ratio:.2f}' for ratio in of)}{' middle' * (len(of) > 1)}"
        if parts:
            yield f"{section}: CPU s a page {parts['cpu_s_a_page']}, cores a GPU {parts['cores_a_gpu']}"
            yield f"{section}: in the middle cores {parts['cores_middle']}; bottleneck: {parts['bottleneck']}"
        if daemon:
            told = {
                key: value for key, value in daemon.items() if key.startswith(("pages_", "shares", "exit", "missing"))
            }
            yield f"{section}: {told}"
        if killed := kinds.get("killed"):
            told = {key: killed[key] for key in ("pages_done_then", "back_after_s", "pages_by_deaths", "timeline")}
            yield f"{section}: {told}"
        if failed := kinds.get("failed"):
            yield f"{section}: FAILED: {failed['error']}"


if __name__ == "__main__":
    main()
