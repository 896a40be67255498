"""Real servers on this machine's loopback, with their files in a folder of the test's: started here, gone afterwards.

Each skips the test, and says why, where its program is missing or it can't be run.
"""

from __future__ import annotations

import getpass
import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

LOOPBACK = "127.0.0.1"
PASSWORD = "only for this test"
PATIENCE_S = 120.0


def program(name: str) -> str:
    """Where a program is; skips the test if it is nowhere."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"needs {name}")
    return found


def free_port() -> int:
    """A port of the loopback that is free, and that the kernel gives to nobody who asks for any."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(min(first, 20_000) // 2, first)
        with socket.socket() as door, suppress(OSError):
            door.bind((LOOPBACK, port))
            return port


@contextmanager
def serving(command: Sequence[str | Path], port: int, log: Path) -> Iterator[None]:
    """A server in a process group of its own, answering at `port` when the block begins."""
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        ends = time.monotonic() + PATIENCE_S
        while not _answers(port):
            said = f"{command[0]} can't be run here: {log.read_text(errors='replace').strip()[-500:]}"
            if server.poll() is not None:
                pytest.skip(said)
            assert time.monotonic() < ends, said
            time.sleep(0.05)
        yield
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def samba(home: Path, folder: Path) -> Iterator[tuple[int, Path]]:
    """`folder` as the share `scans` of a Samba server; its port and configuration. The user is root with PASSWORD."""
    smbd, smbpasswd = program("smbd"), program("smbpasswd")
    if os.geteuid() != 0:
        pytest.skip("smbd needs root")
    port, config = free_port(), home / "smb.conf"
    for name in ("lock", "state", "cache", "pid", "private", "ncalrpc"):
        (home / name).mkdir(parents=True, exist_ok=True)
    config.write_text(
        f"""[global]
        server role = standalone server
        interfaces = {LOOPBACK}/8
        bind interfaces only = yes
        smb ports = {port}
        disable netbios = yes
        lock directory = {home}/lock
        state directory = {home}/state
        cache directory = {home}/cache
        pid directory = {home}/pid
        private dir = {home}/private
        ncalrpc dir = {home}/ncalrpc
        log file = {home}/%m.smb
        passdb backend = tdbsam:{home}/private/passdb.tdb
        load printers = no
        disable spoolss = yes
        [scans]
        path = {folder}
        read only = no
        """
    )
    words = f"{PASSWORD}\n{PASSWORD}\n"
    made = subprocess.run(
        [smbpasswd, "-c", config, "-s", "-a", "root"], input=words, text=True, capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"no Samba user can be made here: {made.stderr.strip()}")
    with serving([smbd, "--foreground", "--no-process-group", "-s", config], port, home / "smbd.log"):
        yield port, config


@contextmanager
def rsyncd(home: Path, folder: Path) -> Iterator[str]:
    """`folder` as the module `scans` of an rsync server; its address."""
    port, config = free_port(), home / "rsyncd.conf"
    who = "uid = 0\ngid = 0\n" if os.geteuid() == 0 else ""
    config.write_text(f"use chroot = no\n{who}[scans]\npath = {folder}\nread only = no\n")
    command = [program("rsync"), "--daemon", "--no-detach", "--address", LOOPBACK, "--port", str(port)]
    with serving([*command, "--config", config, "--log-file", home / "rsyncd.transfers"], port, home / "rsyncd.log"):
        yield f"rsync://{LOOPBACK}:{port}/scans/"


@contextmanager
def sshd(home: Path) -> Iterator[tuple[int, list[str]]]:
    """An SSH server for the user of this test; its port and the options that let a client in."""
    server, keygen = program("sshd"), program("ssh-keygen")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # OpenSSH wants it, wherever its configuration lies
    for key in ("host", "user"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", home / key], check=True)
    port, config = free_port(), home / "sshd_config"
    config.write_text(
        f"""Port {port}
        ListenAddress {LOOPBACK}
        HostKey {home}/host
        PidFile none
        AuthorizedKeysFile {home}/user.pub
        StrictModes no
        UsePAM no
        PasswordAuthentication no
        PermitRootLogin prohibit-password
        Subsystem sftp internal-sftp
        """
    )
    options = {
        "StrictHostKeyChecking": "no",
        "UserKnownHostsFile": "/dev/null",
        "LogLevel": "ERROR",
        "BatchMode": "yes",
    }
    with serving([server, "-D", "-e", "-f", config], port, home / "sshd.log"):
        yield port, ["-F", "/dev/null", "-i", str(home / "user"), *(f"-o{key}={said}" for key, said in options.items())]


@contextmanager
def ftpd(folder: Path) -> Iterator[int]:
    """`folder` as the home of the FTP user `scanner` with PASSWORD; the port."""
    handlers = pytest.importorskip("pyftpdlib.handlers", reason="needs pyftpdlib")
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.servers import FTPServer

    authorizer = DummyAuthorizer()
    authorizer.add_user("scanner", PASSWORD, str(folder), perm="elradfmwMT")
    handler = type("Handler", (handlers.FTPHandler,), {"authorizer": authorizer})
    server = FTPServer((LOOPBACK, 0), handler)
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            server.serve_forever(timeout=0.1, blocking=False)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield int(server.socket.getsockname()[1])
    finally:
        over.set()
        thread.join()
        server.close_all()


def ssh_user() -> str:
    """Who `sshd` lets in."""
    return getpass.getuser()
