"""What 100,000 small files in 1,000 folders cost: scan, memory, statements, and the wait of a file dropped behind them.

    python bench/intake.py [--files 100000] [--folders 1000]

The daemon runs with the null engine. It is stopped once the file dropped last has its output and the sample of
files asked for is done; it need not finish them all.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path


def png(number: int) -> bytes:
    """A 1-bit 64×32 PNG that no other number gives."""
    rows = b"".join(b"\0" + struct.pack(">Q", (number * 2654435761 + row) % 2**64) for row in range(32))

    def chunk(tag: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))

    header = struct.pack(">IIBBBBB", 64, 32, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def rss(pid: int) -> tuple[float, float]:
    """Resident megabytes of a process now and at its peak."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(status["VmRSS"].split()[0]) / 1024, int(status["VmHWM"].split()[0]) / 1024


def one(ledger: Path, query: str) -> int:
    if not ledger.exists():
        return 0
    connection = sqlite3.connect(f"{ledger.as_uri()}?mode=ro", uri=True, timeout=30)
    try:
        return int(connection.execute(query).fetchone()[0] or 0)
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


def wait(process: subprocess.Popen[bytes], condition: object, limit_s: float) -> float:
    began = time.perf_counter()
    while not condition():  # type: ignore[operator]
        if process.poll() is not None:
            raise SystemExit(f"the daemon ended with {process.returncode}")
        if time.perf_counter() - began > limit_s:
            raise SystemExit("waited too long")
        time.sleep(0.05)
    return time.perf_counter() - began


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--files", type=int, default=100_000)
    arguments.add_argument("--folders", type=int, default=1_000)
    arguments.add_argument("--done", type=int, default=5_000, help="files done before it is stopped")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        inbox, ledger = root / "inbox", root / "state" / "ledger.sqlite"
        for number in range(chosen.files):
            folder = inbox / f"{number % chosen.folders:04}"
            if number < chosen.folders:
                folder.mkdir(parents=True)
            (folder / f"{number}.png").write_bytes(png(number))
        config = root / "inboxd.toml"
        config.write_text(
            f'state = "{root / "state"}"\nlog_level = "warning"\n[engine]\nname = "null"\n[[inbox]]\npath = "{inbox}"\n'
        )
        process = subprocess.Popen([sys.executable, "-m", "inboxd", "run", "--config", str(config)])
        try:
            seen = wait(process, lambda: one(ledger, "SELECT count(*) FROM files") >= chosen.files, 900)
            first = one(ledger, "SELECT count(*) FROM files WHERE state = 'done'")
            late = inbox / "late.png"
            late.write_bytes(png(chosen.files))
            latency = wait(process, (inbox / "late.png.json").exists, 900)
            wait(process, lambda: one(ledger, "SELECT count(*) FROM files WHERE state = 'done'") >= chosen.done, 900)
            now, peak = rss(process.pid)
            done = one(ledger, "SELECT count(*) FROM files WHERE state = 'done'")
            process.send_signal(signal.SIGTERM)
            code = process.wait(120)
        finally:
            process.kill()
        print(
            json.dumps(
                {
                    "files": chosen.files,
                    "folders": chosen.folders,
                    "start_and_scan_until_all_have_a_row_s": round(seen, 1),
                    "done_by_then": first,
                    "late_file_first_output_s": round(latency, 1),
                    "done_at_stop": done,
                    "rss_mb": round(now),
                    "peak_rss_mb": round(peak),
                    "exit_code": code,
                    "cpus": os.cpu_count(),
                },
                indent=1,
            )
        )


if __name__ == "__main__":
    main()
