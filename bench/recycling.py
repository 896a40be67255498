"""A daemon that is recycled in the middle of thousands of pages: lives, pages lost or read twice, the gap, memory.

    python bench/recycling.py --engine null                         # here, in a minute
    python bench/recycling.py --engine vllm --model FOLDER          # on a GPU; dummy weights, forced output lengths

Documents of 1 to 60 pages, from receipts to A3, lie in an inbox. A supervisor starts the daemon again whenever it ends
with 75, as systemd would, and asks for that once half of the pages are read. OUT gets report.json and recycling.svg.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "daemon")]

import gpu_pages  # noqa: E402
from recycling_plot import Row, svg  # noqa: E402

SIZES = ((595, 842), (842, 595), (420, 595), (842, 1191), (600, 600), (220, 700))  # points: A4, A5, A3, square, receipt
RECYCLE = 75


def write_documents(folder: Path, pages: int) -> list[Path]:
    """PDFs of mixed lengths and page sizes, every page different."""
    import pymupdf

    dice = random.Random(11)
    folder.mkdir(parents=True)
    written = []
    numbers = iter(range(pages))
    while chunk := list(itertools.islice(numbers, dice.choice((1, 2, 3, 8, 20, 60)))):
        document = pymupdf.open()
        for number in chunk:
            width, height = dice.choice(SIZES)
            page = document.new_page(width=width, height=height)
            page.insert_text((30, 40), [f"page {number}", *gpu_pages.text(number)], fontsize=8.5, lineheight=1.35)
        written.append(folder / f"document-{chunk[0]:05d}.pdf")
        document.save(written[-1], garbage=3, deflate=True)
    return written


def configure(options: argparse.Namespace, root: Path) -> Path:
    """A configuration that takes a health sample a second."""
    engine = 'name = "null"\n'
    if options.engine == "vllm":
        from gpu import ENVIRONMENT

        # As it would run for anybody: processes that import for themselves.
        os.environ.update(ENVIRONMENT | {"VLLM_WORKER_MULTIPROCESSING_METHOD": "spawn"})
        from gpu_measure import Bench

        bench = Bench(options)
        bench.section, bench.scratch = "recycling", root
        settings = bench.settings().engine
        engine = (
            f'name = "vllm"\nmodel = "{settings.model}"\nmodel_profile = "dummy"\ngpu_profile = "bench"\n'
            f'profiles = "{settings.profiles}"\n'
        )
    config = root / "inboxd.toml"
    config.write_text(
        f'state = "{root}/state"\n[engine]\n{engine}[health]\ninterval = 1.0\n'
        f'[[inbox]]\npath = "{root}/inbox"\nsettle = 0.2\n'
    )
    return config


def live(options: argparse.Namespace) -> int:
    """One life, in this process, on an engine that notes what it has read."""
    from inboxd import cli
    from inboxd.engines import registry

    registry.BUILTIN[options.engine] = replace(registry.BUILTIN[options.engine], target=f"recycling:{options.engine}")
    return cli.main(["run", "--config", options.life])


def null(settings: Any) -> Any:
    from inboxd.engines.null import NullEngine

    return noting(NullEngine(delay=0.2, pages_in_flight=16), settings)


def vllm(settings: Any) -> Any:
    from gpu_ours import Forced

    from inboxd.engines import vllm_local

    lengths = gpu_pages.lengths(500, mean=int(os.environ["RECYCLING_TOKENS"]), low=5)
    return noting(Forced(vllm_local.create(settings), lengths), settings)


def noting(engine: Any, settings: Any) -> Any:
    """Every page that comes back from the engine is a line in `reads`: two equal lines are a page read twice."""
    read = engine.read
    path = settings.state_dir / "reads"

    async def noted(page: Any, *arguments: Any) -> Any:
        outcome = await read(page, *arguments)
        with path.open("a") as reads:
            reads.write(f"{hash(page.pixels[::16].tobytes())}\n")
        return outcome

    engine.read = noted
    return engine


def supervise(options: argparse.Namespace, config: Path, ledger: Path, pages: int) -> None:
    """Lives until every file is done; a recycle is asked for in the middle."""
    command = [sys.executable, __file__, "--engine", options.engine, "--life", str(config)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    asked = False
    for number in itertools.count(1):
        with (options.out / "daemon.log").open("ab") as log:
            life = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        while life.poll() is None:
            time.sleep(0.2)
            done = count(ledger, "SELECT count(*) FROM pages WHERE state IN ('ok', 'blank', 'suspect', 'failed')")
            if not asked and done >= pages / 2:
                asked = True
                subprocess.run([sys.executable, "-m", "inboxd", "recycle", "--config", config], check=True)
            if number > 1 and done == pages and not count(ledger, "SELECT count(*) FROM files WHERE state <> 'done'"):
                life.send_signal(signal.SIGTERM)
                life.wait()
        print("a life ended with", life.returncode, flush=True)
        if life.returncode != RECYCLE:
            return


def count(ledger: Path, query: str) -> int:
    if not ledger.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True, timeout=30) as connection:
            return int(connection.execute(query).fetchone()[0])
    except sqlite3.OperationalError:  # not made yet
        return 0


def report(ledger: Path, reads: list[str], pages: int) -> dict[str, Any]:
    """What the ledger and the engine's own notes say."""
    with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as connection:
        ends = [row[0] for row in connection.execute(ENDS)]
        states = dict(connection.execute("SELECT state, count(*) FROM pages GROUP BY state").fetchall())
        lives = connection.execute("SELECT started, ended, exit_code, reason FROM runs ORDER BY id").fetchall()
        attempts = connection.execute("SELECT max(attempts) FROM pages").fetchone()[0]
    gap, at = max((later - earlier, earlier) for earlier, later in itertools.pairwise(ends))
    return {
        "pages": pages,
        "states": states,
        "pages_lost": pages - sum(states.values()),
        "engine_reads": len(reads),
        "pages_read_twice": len(reads) - len(set(reads)),
        "most_attempts": attempts,
        "lives": lives,
        "longest_gap_s": round(gap, 1),
        "gap_after_pages": sum(end <= at for end in ends),
        "seconds": round(ends[-1] - ends[0], 1),
        "pages_a_second_without_the_gap": round(len(ends) / (ends[-1] - ends[0] - gap), 2),
    }


def samples(ledger: Path) -> list[Row]:
    with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as connection:
        rows = connection.execute(SAMPLES).fetchall()
    return [Row(*row) for row in rows]


ENDS = "SELECT (julianday(finished) - 2440587.5) * 86400 FROM pages WHERE finished IS NOT NULL ORDER BY 1"
SAMPLES = """
    SELECT run, (julianday(at) - 2440587.5) * 86400, host_rss, gpu_used, torch_reserved, torch_allocated, torch_peak,
           json_extract(extra, '$.fragmentation'), json_extract(extra, '$.pages')
    FROM memory_samples ORDER BY id
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--engine", choices=("null", "vllm"), default="null")
    parser.add_argument("--model", default="/tmp/model")
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=700, help="forced on a page, in the mean")
    parser.add_argument("--dry", action="store_true", help="small: tries the bench itself on vLLM's CPU build")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "bench-recycling")))
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/inboxd-recycling"))
    parser.add_argument("--life", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.life:
        sys.exit(live(options))
    os.environ["RECYCLING_TOKENS"] = str(options.tokens)
    options.out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(options.scratch, ignore_errors=True)
    write_documents(options.scratch / "inbox", options.pages)
    print("documents written", flush=True)
    config = configure(options, options.scratch)
    ledger = options.scratch / "state/ledger.sqlite"
    supervise(options, config, ledger, options.pages)
    told = report(ledger, (options.scratch / "state/reads").read_text().split(), options.pages)
    text = json.dumps(told, indent=1)
    (options.out / "report.json").write_text(text)
    rows = samples(ledger)
    (options.out / "samples.json").write_text(json.dumps(rows))
    (options.out / "recycling.svg").write_text(svg(rows))
    print(text, flush=True)


if __name__ == "__main__":
    main()
