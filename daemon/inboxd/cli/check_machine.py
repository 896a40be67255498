"""Looks at the machine for `inboxd check`: GPU, fonts, the renderers' sandbox, and the kernel's limits on watching."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from inboxd import config, fonts, gpus, profiles
from inboxd.cli import check_folders
from inboxd.cli.finding import Finding, Level
from inboxd.cli.printing import size
from inboxd.errors import InboxdError, LedgerError, RenderUnusable

_INOTIFY = Path("/proc/sys/fs/inotify")
_COUNTING_S = 2.0
_SPARE_WATCHES = 1000
_WALLS = 2
_WITHOUT_GPU = ("cpu", "null")
_WALLS_ADVICE = """Landlock is in kernels from 5.13 on, if /sys/kernel/security/lsm names it.
seccomp needs libseccomp.so.2: the package libseccomp2 of Debian, libseccomp of others.
In a container, its system call filter must allow the two."""
_MORE_WATCHES = """echo fs.inotify.max_user_watches=524288 | sudo tee /etc/sysctl.d/90-inboxd.conf
sudo sysctl --system"""


def graphics(settings: config.Settings) -> Iterator[Finding]:
    """The NVIDIA GPUs that this process may use, their free memory, and the profile of each; none if no engine asks."""
    if settings.engine.name in _WITHOUT_GPU:
        return
    detected = gpus.detect()
    needed = settings.engine.name == "vllm"
    if not detected.gpus:
        why = "; ".join(detected.trouble)
        if needed:
            advice = 'Install the NVIDIA driver, or set [engine] name = "cpu".'
            yield Finding(Level.FAIL, "GPU", f"the engine vllm needs one, but {why}", advice)
        else:
            yield Finding(Level.OK, "GPU", f"none, pages are read on the processor: {why}")
        return
    for trouble in detected.trouble:
        yield Finding(Level.WARN, "GPU", trouble, "See what nvidia-smi says of it.")
    refused = Level.FAIL if needed else Level.WARN
    try:
        rows = profiles.load(settings.engine.profiles)
    except InboxdError as error:
        yield Finding(refused, "GPU", error.what, error.advice)
        return
    chosen, daemon = settings.engine.gpu_profile, _daemon(settings)
    for gpu in detected.gpus:
        try:
            profile = rows.gpu(chosen) if chosen else rows.gpu_for(gpu)
        except InboxdError as error:
            yield Finding(refused, f"GPU {gpu.index}", error.what, error.advice)
        else:
            yield _card(gpu, profile, daemon)


def _card(gpu: gpus.Gpu, profile: profiles.Profile, daemon: int) -> Finding:
    about = f"GPU {gpu.index}"
    says = f"{gpu.name}, {size(gpu.free)} of {size(gpu.total)} free"
    ours = [holder for holder in gpu.holders if _descends(holder.pid, daemon)]
    others = [holder for holder in gpu.holders if holder not in ours]
    # Where the driver does not tell how much a process holds, it may be all.
    within_reach = gpu.free + sum(gpu.total if holder.used is None else holder.used for holder in ours)
    if within_reach * 2 < gpu.total:
        holders = ", ".join(f"{holder.name} (pid {holder.pid})" for holder in others) or "another program"
        return Finding(Level.WARN, about, says, f"It is held by {holders}: end that, or lower memory_share.")
    rest = ", most of the rest is the daemon's" if ours else ""
    return Finding(Level.OK, about, f"{says}{rest}, profile {profile.name}")


def _daemon(settings: config.Settings) -> int:
    """The process of the daemon that runs, whose engine may well hold a GPU; 0 where none does."""
    from inboxd.ledger.lock import owner

    try:
        daemon = owner(settings.ledger_path)
    except LedgerError:  # told already, as the ledger's own trouble
        return 0
    return daemon.pid if daemon is not None else 0


def _descends(pid: int, ancestor: int) -> bool:
    """Whether a process is that one, or was started by it at however many removes."""
    while pid and pid != ancestor:
        try:
            status = Path(f"/proc/{pid}/status").read_bytes()
        except OSError:  # of another container, or gone
            return False
        pid = int(status.partition(b"\nPPid:")[2].split()[0])
    return bool(pid)


def scripts() -> Iterator[Finding]:
    """Whether PDFs that carry no fonts of their own are drawn whole."""
    try:
        lost = fonts.missing()
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding(Level.FAIL, "fonts", f"the renderer does not start: {error}", "Is PyMuPDF installed whole?")
        return
    if lost:
        says = f"PDFs without embedded fonts lose their text in {', '.join(lost)}"
        yield Finding(Level.WARN, "fonts", says, "Install PyMuPDF from PyPI: its build has these fonts inside.")
    else:
        yield Finding(Level.OK, "fonts", "Chinese, Japanese and Korean are drawn where a PDF carries no fonts")


def sandbox(settings: config.Settings) -> Iterator[Finding]:
    """How well the processes that open documents are shut in: one is started, and says so itself."""
    import asyncio

    from inboxd import logs
    from inboxd.rooms.render.pool import RenderPool

    logs.configure("error")  # what the renderer has to say is said here

    async def lacking() -> tuple[str, ...]:
        pool = RenderPool(settings.render, 1, longest_edge=1, grid=1)
        await pool.start()
        await pool.close()
        return pool.lacks

    try:
        lacks = asyncio.run(lacking())
    except RenderUnusable as error:
        yield Finding(Level.FAIL, "sandbox", error.what, error.advice)
        return
    if not lacks:
        yield Finding(Level.OK, "sandbox", "full: what opens documents can open no other file and reach no network")
        return
    extent = "none" if len(lacks) == _WALLS else "partly"
    says = f"{extent}: what opens documents is shut in without {' and '.join(lacks)}"
    yield Finding(Level.WARN, "sandbox", says, _WALLS_ADVICE)


def watches(settings: config.Settings) -> Iterator[Finding]:
    """Whether the kernel lets us watch as many folders as there are."""
    try:
        limit = int((_INOTIFY / "max_user_watches").read_text())
    except OSError as error:
        advice = 'Set watch = "poll" for the inboxes.'
        yield Finding(Level.WARN, "watching", f"the kernel has no inotify ({error.strerror})", advice)
        return
    watched = [inbox for inbox in settings.inbox if _by_events(inbox)]
    needed, whole = _folders(watched)
    count = f"{needed}{'' if whole else ' or more'} folder{'' if needed == 1 and whole else 's'}"
    if needed + _SPARE_WATCHES > limit:
        advice = f"Raise it:\n{_MORE_WATCHES}"
        yield Finding(Level.WARN, "watching", f"{count}, and the kernel lets a user watch {limit}", advice)
    else:
        yield Finding(Level.OK, "watching", f"{count}; the kernel lets a user watch {limit}")


def _by_events(inbox: config.Inbox) -> bool:
    try:
        return not check_folders.plan(Path(inbox.path), inbox.watch).site.polled
    except OSError:  # told already, as the inbox's own trouble
        return False


def _folders(inboxes: list[config.Inbox]) -> tuple[int, bool]:
    """How many folders would be watched, and whether the time sufficed to count them all."""
    end = time.monotonic() + _COUNTING_S
    count = 0
    for inbox in inboxes:
        for _ in os.walk(os.fsencode(inbox.path)):
            count += 1
            if time.monotonic() > end:
                return count, False
            if not inbox.recursive:
                break
    return count, True
