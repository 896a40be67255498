"""Whoever takes over a renderer gets nowhere: each attack is made from inside a real one, and each wall alone is tried.

The same attacks get through where the sandbox is left out, so that none of them fails for another reason.
"""

from __future__ import annotations

import asyncio
import ctypes
import io
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog
from PIL import Image

from inboxd import config, fonts
from inboxd.core.sniffing import kind_of
from inboxd.model import Kind, Opened, PageFailure, PageImage, Refused
from inboxd.rooms.render.documents import Document
from inboxd.rooms.render.images import ImageDocument
from inboxd.rooms.render.pdf import PdfDocument
from inboxd.rooms.render.pool import RenderPool

EDGE = 400
MEMORY = 256 * 1024**2
NASTY = Path(__file__).parents[2] / "nasty"

# ------------------------------------------------------------------------------------------------ attacks

THROUGH = "through"
FILES = {  # what Landlock forbids by itself, and seccomp by itself
    "read a file": "open('/etc/passwd').close()",
    "read another document": "open(home / 'secret').close()",
    "read the daemon's memory": "open(f'/proc/{daemon}/mem', 'rb').close()",
    "list a folder": "os.listdir(home)",
    "write a file": "open(home / 'new', 'w').close()",
    "write into a file": "open(home / 'secret', 'r+').close()",
    "write into the document": "os.open(f'/proc/self/fd/{fd}', os.O_RDWR)",
    "write into /tmp": "tempfile.TemporaryFile(dir='/tmp').close()",
    "write into /dev/shm": "tempfile.TemporaryFile(dir='/dev/shm').close()",
    "make a folder": "os.mkdir(home / 'folder')",
    "make a link": "os.symlink('/etc/passwd', home / 'link')",
    "make a device": "os.mkfifo(home / 'pipe')",
    "rename a file": "os.rename(home / 'here', home / 'there')",
    "remove a file": "os.unlink(home / 'doomed')",
    "shorten a file": "os.truncate(home / 'long', 0)",
    "run a program": "os.execv(home / 'program', ['program'])",
    "connect by TCP": "socket.create_connection(('127.0.0.1', port), 5).close()",
    "listen by TCP": "socket.socket().bind(('127.0.0.1', 0))",
    "signal the daemon": "os.kill(daemon, 0)",
    "trace the daemon": "call(libc.ptrace, 0x4206, daemon, None, None)",
}
CALLS = {  # what only seccomp forbids
    "have a socket": "socket.socket(socket.AF_UNIX)",
    "send by UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
    "ask the kernel by netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "multiply": "os.fork() or os._exit(0)",
    "have a thread": "start_thread()",
    "have memory that no limit counts": "mmap.mmap(-1, 4096)",
    "have a file in memory": "os.memfd_create('x')",
    "change the mode of a file": "os.chmod(home / 'secret', 0o777)",
    "change the times of a file": "os.utime(home / 'secret')",
    "raise its limits": "resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))",
    "leave its folder": "os.chdir('/')",
    "make system calls elsewhere": "call(libc.syscall, 425, 1, ctypes.create_string_buffer(120))",
}
LIMITS = {  # what the limits forbid, with or without walls
    "have too much memory": f"bytearray({MEMORY} * 2)",
    "have too many files": "[os.dup(fd) for _ in range(100)]",
}
ATTACKS = FILES | CALLS | LIMITS
BY_ROOT = {"trace the daemon", "read the daemon's memory", "multiply", "have a thread"}

INVADED = """#!{python}
import ctypes, errno, json, mmap, os, resource, runpy, socket, sys, tempfile, _thread
from pathlib import Path
import inboxd.rooms.render.sandbox as sandbox
{weakening}
from inboxd.rooms.render import easel
from inboxd.rooms.render.documents import Unreadable

home, port, daemon = Path({home!r}), {port}, os.getppid()
libc = ctypes.CDLL(None, use_errno=True)
tempfile.gettempdir()
socket.create_connection  # resolves names with what it loads late:
"x".encode("idna")

def call(function, *arguments):
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "no")

def start_thread():
    try:
        _thread.start_new_thread(int, ())
    except RuntimeError:
        raise PermissionError from None

def attack(self, fd, kind):
    came_of = {{}}
    for name, code in {attacks!r}.items():
        try:
            exec(code, globals() | {{"fd": fd}})
        except BaseException as error:
            came_of[name] = type(error).__name__ + (f" {{error.errno}}" if isinstance(error, OSError) else "")
        else:
            came_of[name] = "through"
    raise Unreadable(json.dumps(came_of))

easel.Easel.open = attack
sys.argv = sys.argv[-3:]
runpy.run_module("inboxd.rooms.render.worker", run_name="__main__")
"""

WEAKENED = {
    "both walls": "",
    "Landlock alone": "sandbox._LIBRARY = 'libseccomp.so.nowhere'",
    "seccomp alone": "sandbox._CREATE_RULESET = 9999",
    "no walls": "sandbox.enter = tuple",
}


def landlock_version() -> int:
    return int(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1))


def needs(*walls: str) -> None:
    if "Landlock" in walls and landlock_version() < 6:
        pytest.skip(f"this kernel's Landlock is of version {landlock_version()}, and signals are forbidden from 6 on")
    if "seccomp" in walls:
        try:
            ctypes.CDLL("libseccomp.so.2")
        except OSError:
            pytest.skip("libseccomp.so.2 is not installed")


@pytest.fixture(scope="module")
def came_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """How each attack ended, for each way to weaken the sandbox."""
    return {name: invaded(tmp_path_factory.mktemp("invaded"), weakening) for name, weakening in WEAKENED.items()}


def invaded(folder: Path, weakening: str) -> dict[str, str]:
    """What the attacks lead to in a renderer that a document has taken over."""
    home = folder / "home"
    home.mkdir()
    for name in ("secret", "here", "doomed", "long", "program", "document"):
        (home / name).write_bytes(b"\0" * 100)
    (home / "program").chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.MonkeyPatch.context() as patch:
        port = server.getsockname()[1]
        impostor = folder / "python"
        impostor.write_text(
            INVADED.format(python=sys.executable, weakening=weakening, home=str(home), port=port, attacks=ATTACKS)
        )
        impostor.chmod(0o755)
        patch.setattr(sys, "executable", str(impostor))

        async def main() -> Refused | Opened:
            pool = RenderPool(config.Render(memory_bytes=MEMORY), 1, EDGE, 1)
            await pool.start()
            try:
                return await pool.open(home / "document", Kind.PDF)
            finally:
                await pool.close()

        refused = asyncio.run(main())
    assert isinstance(refused, Refused)
    assert not refused.died, refused.reason
    outcome = json.loads(refused.reason)
    outcome["left behind"] = sorted(path.name for path in home.iterdir())
    outcome["long"] = (home / "long").stat().st_size
    return outcome


@pytest.mark.parametrize("attack", [*FILES, *CALLS])
def test_without_a_sandbox_the_attack_gets_through(came_of: dict[str, dict[str, str]], attack: str) -> None:
    expected = {"run a program": "OSError 8"}.get(attack, THROUGH)  # ENOEXEC: it was allowed to try
    if os.geteuid() and attack in BY_ROOT:
        pytest.skip("the limit on processes, or kernel.yama.ptrace_scope, is in the way of all but root")
    assert came_of["no walls"][attack] == expected


@pytest.mark.parametrize("attack", [*FILES, *CALLS])
def test_a_renderer_that_a_file_has_taken_over_cannot(came_of: dict[str, dict[str, str]], attack: str) -> None:
    needs("seccomp")
    assert came_of["both walls"][attack].startswith("PermissionError")


@pytest.mark.parametrize("attack", FILES)
def test_landlock_alone_forbids_to(came_of: dict[str, dict[str, str]], attack: str) -> None:
    needs("Landlock")
    assert came_of["Landlock alone"][attack].startswith("PermissionError")


@pytest.mark.parametrize("attack", [*FILES, *CALLS])
def test_seccomp_alone_forbids_to(came_of: dict[str, dict[str, str]], attack: str) -> None:
    needs("seccomp")
    assert came_of["seccomp alone"][attack].startswith("PermissionError")


@pytest.mark.parametrize("walls", WEAKENED)
def test_no_renderer_can(came_of: dict[str, dict[str, str]], walls: str) -> None:
    assert came_of[walls]["have too much memory"] == "MemoryError"
    assert came_of[walls]["have too many files"] == "OSError 24"  # EMFILE


@pytest.mark.parametrize("walls", ["both walls", "Landlock alone", "seccomp alone"])
def test_nothing_was_touched(came_of: dict[str, dict[str, str]], walls: str) -> None:
    needs("Landlock", "seccomp")
    assert came_of[walls]["left behind"] == ["document", "doomed", "here", "long", "program", "secret"]
    assert came_of[walls]["long"] == 100


# ------------------------------------------------------------------------------------------------ what is lacking


@pytest.mark.parametrize(("walls", "lacks"), [("Landlock alone", ["seccomp"]), ("seccomp alone", ["Landlock"])])
def test_what_the_sandbox_lacks_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walls: str, lacks: list[str]
) -> None:
    needs("Landlock", "seccomp")
    weaken(tmp_path, monkeypatch, WEAKENED[walls])

    async def main() -> tuple[str, ...]:
        pool = RenderPool(config.Render(), 2, EDGE, 1)
        await pool.start()
        try:
            assert await pool.open(NASTY / "rot90.pdf", Kind.PDF) == Opened(1)
            return pool.lacks
        finally:
            await pool.close()

    with structlog.testing.capture_logs() as logs:
        said = asyncio.run(main())
    assert [lack.split(" (")[0] for lack in said] == lacks
    (warning,) = (entry for entry in logs if entry["log_level"] == "warning")
    assert warning["lacks"] == "; ".join(said)


def weaken(folder: Path, monkeypatch: pytest.MonkeyPatch, weakening: str) -> None:
    """Start renderers as if on a machine that lacks something."""
    impostor = folder / "python"
    impostor.write_text(
        f"#!{sys.executable}\nimport runpy, sys\nimport inboxd.rooms.render.sandbox as sandbox\n{weakening}\n"
        "sys.argv = sys.argv[-3:]\nrunpy.run_module('inboxd.rooms.render.worker', run_name='__main__')\n"
    )
    impostor.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(impostor))


@pytest.mark.parametrize(
    ("crash", "how"),
    [("import os; os.abort()", "SIGABRT"), ("import ctypes; ctypes.string_at(0)", "SIGSEGV")],
)
def test_a_crash_in_the_sandbox_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: str, how: str
) -> None:
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")  # as under systemd
    act = f"def crash(self, fd, kind):\n    {crash}\nimport ctypes\n"
    weaken(tmp_path, monkeypatch, f"{act}from inboxd.rooms.render import easel\neasel.Easel.open = crash")

    async def main() -> Opened | Refused:
        pool = RenderPool(config.Render(), 1, EDGE, 1)
        await pool.start()
        try:
            return await pool.open(NASTY / "rot90.pdf", Kind.PDF)
        finally:
            await pool.close()

    assert asyncio.run(main()) == Refused(f"the renderer crashed ({how}) while opening it", died=True)


# ------------------------------------------------------------------------------------------------ its proper work


def picture(mode: str = "RGB", turn: int = 0) -> Image.Image:
    image = Image.effect_noise((160, 120), 90).convert(mode)
    image.paste(Image.linear_gradient("L").resize((60, 60)).rotate(turn).convert(mode), (20, 20))
    return image


def encoded(form: str, mode: str = "RGB", **options: Any) -> bytes:
    out = io.BytesIO()
    picture(mode).save(out, form, **options)
    return out.getvalue()


def animated(form: str) -> bytes:
    return encoded(form, save_all=True, append_images=[picture(turn=90), picture(turn=180)], duration=100)


MADE = {
    "jpeg": lambda: encoded("JPEG"),
    "jpeg cmyk": lambda: encoded("JPEG", "CMYK"),
    "png": lambda: encoded("PNG"),
    "png, a shade transparent": lambda: encoded("PNG", "L", transparency=0),
    "bmp": lambda: encoded("BMP"),
    "pnm": lambda: encoded("PPM"),
    "gif": lambda: animated("GIF"),
    "webp": lambda: encoded("WEBP"),
    "webp, animated": lambda: animated("WEBP"),
    "avif": lambda: encoded("AVIF"),
    "avif, animated": lambda: animated("AVIF"),
    "jp2": lambda: encoded("JPEG2000"),
    "jp2, grey with transparency": lambda: encoded("JPEG2000", "LA"),
    "tiff": lambda: encoded("TIFF"),
    "tiff fax": lambda: encoded("TIFF", "1", compression="group4"),
    "tiff jpeg": lambda: encoded("TIFF", compression="jpeg"),
    "tiff zstd": lambda: encoded("TIFF", compression="zstd"),
    "tiff lzma": lambda: encoded("TIFF", compression="lzma"),
    "pdf, Chinese not embedded": lambda: fonts._page("STSong-Light", "UniGB-UTF16-H", "GB1", "中"),
    "pdf, Japanese not embedded": lambda: fonts._page("HeiseiMin-W3", "UniJIS-UTF16-H", "Japan1", "語"),
    "pdf, Korean not embedded": lambda: fonts._page("HYSMyeongJo-Medium", "UniKS-UTF16-H", "Korea1", "한"),
    "pdf, Latin not embedded": lambda: fonts._page("Garamond", "Identity-H", "Identity", "A"),
    "pdf jpx": (NASTY / "jpx_grey.pdf").read_bytes,
    "pdf jbig2": (NASTY / "jbig2_pdfminer.pdf").read_bytes,
    "pdf with a form": (NASTY / "form_filled_acrobat.pdf").read_bytes,
    "pdf with odd text": (NASTY / "garbage_nul_codes.pdf").read_bytes,
}


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("documents")
    paths = {name: folder / f"{number}" for number, name in enumerate(MADE)}
    for name, make in MADE.items():
        paths[name].write_bytes(make())
    return paths


@pytest.fixture(scope="module")
def inside(documents: dict[str, Path]) -> dict[str, list[PageImage | PageFailure] | Refused]:
    """What a renderer in its sandbox makes of each document."""

    async def main() -> dict[str, list[PageImage | PageFailure] | Refused]:
        pool = RenderPool(config.Render(), 1, EDGE, 1)
        await pool.start()
        try:
            return {name: await through(pool, path) for name, path in documents.items()}
        finally:
            await pool.close()

    return asyncio.run(main())


async def through(pool: RenderPool, path: Path) -> list[PageImage | PageFailure] | Refused:
    kind = kind_of(path.read_bytes()[:4096])
    assert kind is not None
    opened = await pool.open(path, kind)
    if isinstance(opened, Refused):
        return opened
    return [await pool.render(path, kind, number) for number in range(1, opened.pages + 1)]


@pytest.mark.parametrize("name", MADE)
def test_a_document_looks_the_same_from_inside(
    documents: dict[str, Path], inside: dict[str, list[PageImage | PageFailure] | Refused], name: str
) -> None:
    document = outside(documents[name])
    pages = inside[name]
    assert isinstance(pages, list), pages
    assert len(pages) == document.pages
    for number, page in enumerate(pages, 1):
        assert isinstance(page, PageImage), page
        drawn = document.draw(number)
        assert np.array_equal(page.pixels, drawn.pixels)
        assert page.warnings == drawn.warnings
    document.close()


def outside(path: Path) -> Document:
    kind = kind_of(path.read_bytes()[:4096])
    assert kind is not None
    with path.open("rb") as file:
        if kind is Kind.PDF:
            return PdfDocument(file.fileno(), max_pages=9, max_pixels=10**8, longest_edge=EDGE)
        return ImageDocument(file.fileno(), kind, max_pages=9, max_pixels=10**8, longest_edge=EDGE)
