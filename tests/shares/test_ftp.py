"""A scanner that delivers by FTP: slowly, under another name first, cut off and resumed."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from ftplib import FTP

import pytest
from tests.process.daemon import Daemon, running
from tests.shares.servers import LOOPBACK, PASSWORD, ftpd
from tests.shares.uploads import FILES, PAUSE_S, all_came_once_and_whole, content, waits_for_more

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ftp")]


class Slow(io.BytesIO):
    """A file that comes in four pieces with a pause before each."""

    def read(self, _: int | None = -1, /) -> bytes:
        if self.tell() < len(self.getbuffer()):
            time.sleep(PAUSE_S)
        return super().read(-(-len(self.getbuffer()) // 4))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, int]]:
    root = tmp_path_factory.mktemp("daemon")
    (root / "inbox").mkdir()
    with ftpd(root / "inbox") as port, running(root) as daemon:
        yield daemon, port


@pytest.fixture
def ftp(server: tuple[Daemon, int]) -> Iterator[FTP]:
    with FTP() as client:
        client.connect(LOOPBACK, server[1])
        client.login("scanner", PASSWORD)
        yield client


def test_a_slow_upload_to_the_final_name(server: tuple[Daemon, int], ftp: FTP) -> None:
    contents = {f"slow {kind}": content(kind, 1) for kind in ("scan.pdf", "photo.jpg", "fax.tif")}
    for name, data in contents.items():
        ftp.storbinary(f"STOR {name}", Slow(data))
    all_came_once_and_whole(server[0], contents)


def test_an_upload_that_is_renamed_when_it_is_complete(server: tuple[Daemon, int], ftp: FTP) -> None:
    contents = {f"renamed {kind}": content(kind, 2) for kind in FILES}
    for name, data in contents.items():
        ftp.storbinary(f"STOR {name}.part", io.BytesIO(data))
        ftp.rename(f"{name}.part", name)
    all_came_once_and_whole(server[0], contents)


def test_an_upload_that_is_cut_off_and_resumed(server: tuple[Daemon, int], ftp: FTP) -> None:
    daemon, name, data = server[0], "cut page.png", content("page.png", 3)
    half = len(data) // 2
    ftp.voidcmd("TYPE I")
    connection = ftp.transfercmd(f"STOR {name}")
    connection.sendall(data[:half])
    connection.close()
    ftp.voidresp()
    daemon.wait(lambda: waits_for_more(daemon, name))
    ftp.storbinary(f"STOR {name}", io.BytesIO(data[half:]), rest=half)
    all_came_once_and_whole(daemon, {name: data})
