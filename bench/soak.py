"""A daemon under a long, mixed load: does it leak, stall or slow down?

    python bench/soak.py --engine null --pages 20000 --out FOLDER
    python bench/soak.py --engine cpu --minutes 60 --out FOLDER

Files arrive for as long as it lasts, a few hundred ahead: pictures, PDFs, copies of earlier files, broken ones; earlier
files are requeued, and the daemon is asked for its status. FOLDER gets samples.jsonl (every few seconds: memory, open
files, size of the ledger, stalls of the event loop), stalls.txt (what it did in each) and report.json.
docs/reliability.md has the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "daemon")]

from soak_files import arrivals  # noqa: E402

AHEAD = {"null": 300, "cpu": 20}
"""Files that are not final yet, kept at most."""
REQUEUE = 0.02
"""Of each file that arrives, one earlier one so often is requeued."""
SAMPLE_S, STATUS_EVERY = 5.0, 6
BEAT_S, STALL_S = 0.02, 0.1


class Pulse(threading.Thread):
    """Asks the event loop for a sign of life, again and again; notes how long it took, and what it did meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop, path: Path) -> None:
        super().__init__(daemon=True)
        self._loop, self._path = loop, path

    def run(self) -> None:
        answered = threading.Event()
        main = threading.main_thread().ident or 0
        longest, stalls, beats, told = 0.0, 0, 0, time.monotonic()
        while not self._loop.is_closed():
            answered.clear()
            asked = time.monotonic()
            self._loop.call_soon_threadsafe(answered.set)
            where = "" if answered.wait(STALL_S) else _stack(main)
            answered.wait()
            took = time.monotonic() - asked
            longest, stalls, beats = max(longest, took), stalls + (took > STALL_S), beats + 1
            if where:
                with self._path.with_suffix(".stalls").open("a") as file:
                    file.write(f"{time.strftime('%H:%M:%S')} {took:.3f} s, after the first {STALL_S} in\n{where}\n")
            if time.monotonic() - told > 1:
                told = time.monotonic()
                self._path.write_text(json.dumps({"longest_s": round(longest, 3), "stalls": stalls, "beats": beats}))
            time.sleep(BEAT_S)


def _stack(thread: int) -> str:
    frame = sys._current_frames().get(thread)
    return "".join(traceback.format_stack(frame, limit=12)) if frame else "?\n"


def live(config: str, pulse: Path) -> int:
    """The daemon's own process: the daemon as it is, and a thread that feels its pulse."""
    from inboxd import cli

    run = asyncio.run

    async def felt(main: Coroutine[Any, Any, Any]) -> Any:
        Pulse(asyncio.get_running_loop(), pulse).start()
        return await main

    asyncio.run = lambda main, **more: run(felt(main), **more)  # type: ignore[assignment]
    return cli.main(["run", "--config", config])


class Soak:
    """One daemon, what it is given, and what it is seen to use."""

    def __init__(self, options: argparse.Namespace, root: Path) -> None:
        self._options, self._root = options, root
        self._inbox, self._ledger = root / "inbox", root / "state" / "ledger.sqlite"
        self._inbox.mkdir()
        self._config = root / "inboxd.toml"
        self._config.write_text(
            f'state = "{root / "state"}"\nlog_level = "error"\n[engine]\nname = "{options.engine}"\n'
            f'[[inbox]]\npath = "{self._inbox}"\nsettle = 0.2\n'
        )
        self._pulse = root / "pulse.json"
        self.samples: list[dict[str, Any]] = []
        self.status_s: list[float] = []
        self.dropped = self.requeued = 0

    def run(self) -> dict[str, Any]:
        """Feed until it is enough, let it drain, and say what was seen."""
        command = [sys.executable, __file__, "--live", str(self._config), str(self._pulse)]
        process = subprocess.Popen(command)
        try:
            while process.poll() is None and not self._ask("SELECT 1 FROM runs"):
                time.sleep(0.1)
            self._feed(process)
            while self._counts()["open"]:
                self._sample(process)
                time.sleep(SAMPLE_S)
            self._sample(process)
            states = self._counts()
            process.send_signal(signal.SIGTERM)
            code = process.wait(120)
        finally:
            process.kill()
        return self._report(states, code)

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        dice, began, sampled, pages = random.Random(9), time.monotonic(), 0.0, 0
        files = arrivals(self._inbox, self._options.engine)
        while time.monotonic() - began < 60 * self._options.minutes and pages < self._options.pages:
            if self._counts()["open"] < AHEAD[self._options.engine]:
                for _ in range(10):
                    pages += next(files)
                    self.dropped += 1
                    if dice.random() < REQUEUE:
                        self._requeue(dice)
            else:
                time.sleep(0.1)
            if time.monotonic() - sampled > SAMPLE_S:
                sampled = time.monotonic()
                self._sample(process)

    def _requeue(self, dice: random.Random) -> None:
        rows = self._ask("SELECT id FROM files WHERE state IN ('done', 'quarantined') ORDER BY id DESC LIMIT 500")
        if rows:
            self._cli("requeue", str(dice.choice(rows)[0]))
            self.requeued += 1

    def _sample(self, process: subprocess.Popen[bytes]) -> None:
        from inboxd.rooms.vitals import family

        if process.poll() is not None:
            raise SystemExit(f"the daemon ended with {process.returncode}")
        if len(self.samples) % STATUS_EVERY == 0:
            began = time.monotonic()
            self._cli("status")
            self.status_s.append(round(time.monotonic() - began, 3))
        ledger = sum(path.stat().st_size for path in self._ledger.parent.glob("ledger.sqlite*"))
        facts: dict[str, Any] = {"at": round(time.monotonic(), 1), **self._counts(), "ledger_bytes": ledger}
        facts |= {"fds": len(os.listdir(f"/proc/{process.pid}/fd")), "main_kb": rss(process.pid)}
        sizes = sorted(map(rss, family(process.pid)), reverse=True)
        facts |= {"all_kb": sum(sizes), "largest_kb": sizes[:2]}
        facts |= json.loads(self._pulse.read_text() or "{}") if self._pulse.exists() else {}
        self.samples.append(facts)
        with (self._options.out / "samples.jsonl").open("a") as file:
            file.write(json.dumps(facts) + "\n")

    def _counts(self) -> dict[str, int]:
        ((files, still),) = self._ask(
            "SELECT count(*), sum(state IN ('settling', 'ready', 'reading', 'retrying')) FROM files"
        ) or [(0, 0)]
        ((pages,),) = self._ask("SELECT coalesce(sum(attempts), 0) FROM pages") or [(0,)]
        return {"files": files, "open": (still or 0) + self.dropped - files, "pages_tried": pages}

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        if not self._ledger.exists():
            return []
        with closing(sqlite3.connect(f"{self._ledger.as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            try:
                return connection.execute(query).fetchall()
            except sqlite3.OperationalError:  # it is being made
                return []

    def _cli(self, *words: str) -> None:
        command = [sys.executable, "-m", "inboxd", *words, "--config", str(self._config)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)

    def _report(self, states: dict[str, int], code: int) -> dict[str, Any]:
        settled = self.samples[len(self.samples) // 3 :]  # after the first third everything has been loaded once
        hours = (settled[-1]["at"] - settled[0]["at"]) / 3600
        last = self.samples[-1]
        pages = last["pages_tried"]
        return {
            "engine": self._options.engine,
            "minutes": round((last["at"] - self.samples[0]["at"]) / 60, 1),
            "files": states["files"],
            "requeued": self.requeued,
            "by_state": dict(self._ask("SELECT state, count(*) FROM files GROUP BY state")),
            "pages": dict(self._ask("SELECT state, count(*) FROM pages GROUP BY state")),
            "pages_tried": pages,
            **{
                f"{what}_mb": [round(sample[f"{what}_kb"] / 1024) for sample in (settled[0], last)]
                for what in ("main", "all")
            },
            "main_mb_an_hour": round(slope(settled, "main_kb") * 3600 / 1024, 2),
            "main_kb_for_1000_pages": round((last["main_kb"] - settled[0]["main_kb"]) * 1000 / max(1, pages), 1),
            "all_mb_an_hour": round(slope(settled, "all_kb") * 3600 / 1024, 2),
            "measured_h": round(hours, 2),
            "fds": [settled[0]["fds"], max(sample["fds"] for sample in settled), last["fds"]],
            "ledger_bytes_a_page": round(last["ledger_bytes"] / max(1, pages)),
            "loop": {key: last.get(key) for key in ("longest_s", "stalls", "beats")},
            "status_s": [self.status_s[0], max(self.status_s), self.status_s[-1]],
            "exit_code": code,
            "cpus": os.cpu_count(),
        }


def slope(samples: list[dict[str, Any]], what: str) -> float:
    """Of `what` by the second, by least squares."""
    import numpy as np

    return float(np.polyfit([sample["at"] for sample in samples], [sample[what] for sample in samples], 1)[0])


def rss(pid: int) -> int:
    """Resident kilobytes of a process; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024
    except OSError:
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=tuple(AHEAD), default="null")
    parser.add_argument("--pages", type=int, default=10**9, help="pages to drop")
    parser.add_argument("--minutes", type=float, default=60, help="stop dropping files after so long")
    parser.add_argument("--out", type=Path, default=Path("soak"))
    parser.add_argument("--live", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.live:
        sys.exit(live(options.live[0], Path(options.live[1])))
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        report = Soak(options, Path(name)).run()
        if (stalls := Path(name, "pulse.stalls")).exists():
            (options.out / "stalls.txt").write_text(stalls.read_text())
    (options.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
