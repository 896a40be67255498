"""A Samba share as inbox: a scanner that preallocates, Windows' copy, smbclient, and a client that breaks off."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from tests.process.daemon import Daemon, running
from tests.shares.servers import LOOPBACK, PASSWORD, program, samba
from tests.shares.uploads import (
    FILES,
    all_came_once_and_whole,
    content,
    placed,
    rounds,
    waits_for_more,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("samba")]

STATUS_SHARING_VIOLATION = 0xC0000043


class Share:
    """The share as a client on another machine has it, and the daemon that watches the same folder on the server."""

    def __init__(self, daemon: Daemon, port: int, config: Path) -> None:
        self.daemon = daemon
        self._port = port
        self._config = config
        self._connections: dict[str, Any] = {}

    def close(self) -> None:
        if self._connections:
            _client().reset_connection_cache(connection_cache=self._connections)

    def smbclient(self, words: str) -> list[str]:
        """Samba's own client with its commands."""
        login = ["-s", str(self._config), "-p", str(self._port), "-U", f"root%{PASSWORD}"]
        return [program("smbclient"), *login, f"//{LOOPBACK}/scans", "-c", words]

    def open(self, name: str, mode: str = "wb") -> Any:
        """A file of the share, each write to which goes out at once."""
        return _client().open_file(self._place(name), mode=mode, buffering=0, share_access="r", **self._who())

    def open_again(self, name: str) -> Any:
        """A file that a client held when it died, as soon as the server has noticed the death."""
        opened: list[Any] = []

        def let_go() -> bool:
            try:
                opened.append(self.open(name))
            except OSError as error:
                if getattr(error, "ntstatus", None) != STATUS_SHARING_VIOLATION:
                    raise
            return bool(opened)

        self.daemon.wait(let_go)
        return opened[0]

    def rename(self, old: str, new: str) -> None:
        _client().rename(self._place(old), self._place(new), **self._who())

    def set_times(self, name: str, at: float) -> None:
        _client().utime(self._place(name), times=(at, at), **self._who())

    def child(self, program: str, name: str, *arguments: Path) -> list[str]:
        """A client in a process of its own, which may be killed."""
        login = [self._place(name), str(self._port), "root", PASSWORD]
        return [sys.executable, "-c", program, *login, *map(str, arguments)]

    def _place(self, name: str) -> str:
        return rf"\\{LOOPBACK}\scans\{name}"

    def _who(self) -> dict[str, Any]:
        return {
            "username": "root",
            "password": PASSWORD,
            "port": self._port,
            "connection_cache": self._connections,
        }


def _client() -> Any:
    return pytest.importorskip("smbclient", reason="needs smbprotocol")


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Share]:
    root, home = tmp_path_factory.mktemp("daemon"), tmp_path_factory.mktemp("samba")
    (root / "inbox").mkdir()
    with samba(home, root / "inbox") as (port, config), running(root) as daemon:
        daemon.wait(lambda: daemon.sql("SELECT state FROM inboxes") == [("watching",)])
        with closing(Share(daemon, port, config)) as share:
            yield share


def test_a_copy_of_windows_that_sets_the_size_first_and_the_times_last(share: Share) -> None:
    contents = {f"explorer {kind}": content(kind, 1) for kind in FILES}
    with ExitStack() as stack:
        files = {name: stack.enter_context(share.open(name)) for name in contents}
        for name, data in contents.items():
            files[name].truncate(len(data))
        for pieces in rounds(contents, 4):
            for name, (offset, piece) in pieces.items():
                files[name].seek(offset)
                files[name].write(piece)
    for name in contents:
        share.set_times(name, 1_000_000_000.0)
    all_came_once_and_whole(share.daemon, contents)


def test_a_scanner_that_writes_slowly_under_a_temporary_name_and_renames(share: Share) -> None:
    contents = {f"renamed {kind}": content(kind, 2) for kind in FILES}
    with ExitStack() as stack:
        files = {name: stack.enter_context(share.open(f"{name}.tmp")) for name in contents}
        for name, data in contents.items():
            files[name].truncate(len(data))
        for pieces in rounds(contents, 2):
            for name, (offset, piece) in pieces.items():
                files[name].seek(offset)
                files[name].write(piece)
    for name in contents:
        share.rename(f"{name}.tmp", name)
    all_came_once_and_whole(share.daemon, contents)


def test_a_scanner_that_opens_appends_and_closes_for_each_page(share: Share) -> None:
    contents = {f"appended {kind}": content(kind, 3) for kind in FILES}
    for name in contents:
        share.open(name).close()
    for pieces in rounds(contents, 3):
        for name, (_, piece) in pieces.items():
            with share.open(name, "ab") as file:
                file.write(piece)
    all_came_once_and_whole(share.daemon, contents)


def test_samba_s_own_client(share: Share, tmp_path: Path) -> None:
    contents = {f"put {kind}": content(kind, 4) for kind in FILES}
    words = "; ".join(f'put "{path}" "{path.name}"' for path in placed(tmp_path / "client", contents))
    subprocess.run(share.smbclient(words), check=True, capture_output=True)
    all_came_once_and_whole(share.daemon, contents)


CLIENT = """
import smbclient, sys
place, port, user, word, half = sys.argv[1:]
who = {"username": user, "password": word, "port": int(port)}
with smbclient.open_file(place, mode="wb", buffering=0, **who) as file, open(half, "rb") as data:
    file.write(data.read())
    sys.stdin.read()
"""


def test_a_client_that_is_killed_in_the_middle_and_comes_again(share: Share, tmp_path: Path) -> None:
    name, data = "killed photo.jpg", content("photo.jpg", 5)
    (tmp_path / "half").write_bytes(data[: len(data) // 2])
    with subprocess.Popen(share.child(CLIENT, name, tmp_path / "half"), stdin=subprocess.PIPE) as client:
        share.daemon.wait(lambda: waits_for_more(share.daemon, name))
        client.kill()
    with share.open_again(name) as file:
        for pieces in rounds({name: data}, 2):
            file.write(pieces[name][1])
    all_came_once_and_whole(share.daemon, {name: data})
