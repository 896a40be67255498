"""Pages a second through the whole daemon with the null engine, beside a bare PyMuPDF loop over the same pages.

    python bench/pipeline.py [--pages 600] [--workers N] [--over hidden|visible]

A plain scan, also with a layer of hidden text over it as OCR programs leave it (`--over hidden`), is decoded by the
daemon without MuPDF; with a printed line over each (`--over visible`) MuPDF must draw them all. Both sides render to
the same size with the same number of processes, in one run on one machine; what counts is the ratio.
The daemon's clock runs from its first page claimed to its last output written (its start is told apart).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[1] / "tests" / "samples"
EDGE = 1540


def make(folder: Path, pages: int, over: str = "nothing") -> list[Path]:
    """PDFs of scanned and of typeset pages, 1 to 40 pages each; as in a real scan no two pages share their image."""
    import cv2
    import pymupdf

    scans = [cv2.imread(str(path)) for path in sorted(SAMPLES.glob("*_notice_degraded.jpg"))]
    lines = (SAMPLES / "en_report.txt").read_text().splitlines()
    made: list[Path] = []
    lengths = [1, 3, 40, 1, 7, 12, 2, 1]
    number = 0
    while number < pages:
        with pymupdf.open() as out:
            for _ in range(min(pages - number, lengths[len(made) % len(lengths)])):
                page = out.new_page(width=595, height=842)
                if number % 3:
                    scan = scans[number % len(scans)].copy()
                    cv2.putText(scan, str(number), (40, 60), cv2.FONT_HERSHEY_SIMPLEX, 1.5, (60, 60, 60), 3)
                    jpeg = cv2.imencode(".jpg", scan, [cv2.IMWRITE_JPEG_QUALITY, 75])[1].tobytes()
                    page.insert_image(page.rect, stream=jpeg)
                    if over == "hidden":
                        page.insert_text((60, 60), lines, fontsize=11, render_mode=3)
                    elif over == "visible":
                        page.insert_text((60, 830), f"received, {number}", fontsize=11)
                else:
                    page.insert_text((60, 60), [f"Page {number}", *lines], fontsize=11)
                number += 1
            path = folder / f"{len(made):04}.pdf"
            out.save(path)
        made.append(path)
    return made


def render(path: str) -> int:
    """The bare loop's work on one document: every page to pixels at the model's size."""
    import pymupdf

    pymupdf.TOOLS.mupdf_display_errors(False)
    with pymupdf.open(path) as document:
        for page in document:
            zoom = EDGE / max(page.rect.width, page.rect.height)
            page.get_pixmap(matrix=pymupdf.Matrix(zoom, zoom), alpha=False)
        return len(document)


def bare(paths: list[Path], workers: int) -> float:
    """Pages a second of `workers` processes that only render, warmed up first."""
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        pool.map(render, [str(paths[0])] * workers, chunksize=1)
        began = time.perf_counter()
        pages = sum(pool.imap_unordered(render, map(str, paths), chunksize=1))
        return pages / (time.perf_counter() - began)


def daemon(paths: list[Path], workers: int, root: Path) -> dict[str, float]:
    """Pages a second from the first claim to the last output, and seconds of the whole process."""
    inbox = root / "inbox"
    inbox.mkdir()
    for path in paths:
        (inbox / path.name).hardlink_to(path)
    config = root / "inboxd.toml"
    config.write_text(
        f'state = "{root / "state"}"\nlog_level = "warning"\n[render]\nworkers = {workers}\n[engine]\nname = "null"\n'
        f'[[inbox]]\npath = "{inbox}"\nsettle = 0.1\n'
    )
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "inboxd", "run", "--config", str(config), "--until-drained"], check=True)
    whole = time.perf_counter() - began
    ledger = sqlite3.connect(root / "state" / "ledger.sqlite")
    pages, seconds = ledger.execute(
        "SELECT (SELECT count(*) FROM pages WHERE state = 'ok'), (SELECT (julianday(max(finished)) - "
        "julianday(min(started))) * 86400 FROM files)"
    ).fetchone()
    assert ledger.execute("SELECT count(*) FROM files WHERE state = 'done'").fetchone()[0] == len(paths)
    return {"pages": pages, "pages_per_s": pages / seconds, "whole_s": whole}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pages", type=int, default=600)
    arguments.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    arguments.add_argument("--over", choices=("nothing", "hidden", "visible"), default="nothing")
    arguments.add_argument("--rounds", type=int, default=3)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        source = root / "source"
        source.mkdir()
        paths = make(source, chosen.pages, chosen.over)
        ratios = []
        for number in range(chosen.rounds):
            turn = root / str(number)
            turn.mkdir()
            loop = bare(paths, chosen.workers)
            ours = daemon(paths, chosen.workers, turn)
            ratios.append(ours["pages_per_s"] / loop)
            print(
                f"round {number + 1}: bare {loop:.1f} pages/s, daemon {ours['pages_per_s']:.1f} pages/s, "
                f"ratio {ratios[-1]:.3f} (whole process {ours['whole_s']:.1f} s)"
            )
        print(
            json.dumps(
                {"workers": chosen.workers, "pages": chosen.pages, "ratio_median": sorted(ratios)[len(ratios) // 2]}
            )
        )


if __name__ == "__main__":
    main()
