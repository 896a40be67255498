"""Documents that do to a renderer what the tests want, and a look at the processes that it happens to."""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pymupdf

WAIT = 60.0  # seconds until a condition that never comes is a failure


def endless() -> bytes:
    """A PDF page that takes years to draw: forms that draw forms, ten times each, twelve deep."""
    pdf = pymupdf.open()
    page = pdf.new_page(width=300, height=400)
    below = ""
    for level in range(12):
        form = pdf.get_new_xref()
        resources = f"/Resources << /XObject << /F {below} >> >>" if below else ""
        pdf.update_object(form, f"<< /Type /XObject /Subtype /Form /BBox [0 0 300 400] {resources} >>")
        pdf.update_stream(form, b"/F Do " * 10 if level else b"0 0 300 400 re f ")
        below = f"{form} 0 R"
    content = pdf.get_new_xref()
    pdf.update_object(content, "<< >>")
    pdf.update_stream(content, b"/F Do")
    pdf.xref_set_key(page.xref, "Resources", f"<< /XObject << /F {below} >> >>")
    pdf.xref_set_key(page.xref, "Contents", f"{content} 0 R")
    return bytes(pdf.tobytes())


def numbered(pages: int) -> bytes:
    """A PDF whose page n is n pixels narrower than high, at an edge of 400."""
    pdf = pymupdf.open()
    for number in range(1, pages + 1):
        pdf.new_page(width=400 - number, height=400).insert_text((50, 50), str(number))
    return bytes(pdf.tobytes())


def voracious(side: int) -> bytes:
    """A small grey PNG of `side` × `side` pixels, a byte each once it is decoded."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes((side + 7) // 8 + 1) * side)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def children(parent: int | None = None) -> set[int]:
    """Ids of the processes whose parent is `parent` (default: this process).

    Those not yet reaped are left out, and the servers from which other tests have multiprocessing fork.
    """
    found = set()
    for entry in Path("/proc").iterdir():
        fields = _stat(int(entry.name)) if entry.name.isdigit() else []
        is_child = fields and int(fields[1]) == (parent or os.getpid()) and fields[0] != "Z"
        if is_child and b"from multiprocessing." not in _command(int(entry.name)):
            found.add(int(entry.name))
    return found


def processor_time(pid: int) -> int:
    """Clock ticks that a process has used."""
    fields = _stat(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Block until it holds."""
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; empty where the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
