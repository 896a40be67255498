"""scp and sftp into an inbox, at a few hundred kilobytes a second, and an upload that breaks off and is continued."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.process.daemon import Daemon, running
from tests.shares.servers import LOOPBACK, program, ssh_user, sshd
from tests.shares.uploads import FILES, all_came_once_and_whole, content, placed, waits_for_more

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ssh")]

RATE = "4000"
"""kbit/s"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, list[str]]]:
    root, home = tmp_path_factory.mktemp("daemon"), tmp_path_factory.mktemp("ssh")
    with sshd(home) as (port, options), running(root) as daemon:
        yield daemon, ["-q", "-P", str(port), *options]


@pytest.mark.parametrize("protocol", [[], ["-O"]], ids=["sftp", "legacy"])
def test_scp(server: tuple[Daemon, list[str]], tmp_path: Path, protocol: list[str]) -> None:
    daemon, options = server
    contents = {f"scp{''.join(protocol)} {kind}": content(kind, 1 + len(protocol)) for kind in FILES}
    files = placed(tmp_path / "client", contents)
    where = f"{ssh_user()}@{LOOPBACK}:{daemon.inbox}/"
    command = [program("scp"), *protocol, "-p", "-l", RATE, *options, *files, where]
    subprocess.run(command, check=True, capture_output=True)
    all_came_once_and_whole(daemon, contents)


def sftp(server: tuple[Daemon, list[str]], tmp_path: Path, *words: str) -> list[str]:
    (tmp_path / "batch").write_text("\n".join(words) + "\n")
    return [program("sftp"), *server[1], "-l", RATE, "-b", str(tmp_path / "batch"), f"{ssh_user()}@{LOOPBACK}"]


def test_sftp_to_the_final_name_and_to_a_temporary_one(server: tuple[Daemon, list[str]], tmp_path: Path) -> None:
    daemon, _ = server
    contents = {f"{how} {kind}": content(kind, 3 + len(how)) for how in ("put", "renamed") for kind in FILES}
    words = []
    for path in placed(tmp_path / "client", contents):
        last = daemon.inbox / path.name
        if path.name.startswith("renamed"):
            words += [f'put -p "{path}" "{last}.filepart"', f'rename "{last}.filepart" "{last}"']
        else:
            words.append(f'put -p "{path}" "{last}"')
    subprocess.run(sftp(server, tmp_path, *words), check=True, capture_output=True)
    all_came_once_and_whole(daemon, contents)


def test_an_upload_that_breaks_off_and_is_continued(server: tuple[Daemon, list[str]], tmp_path: Path) -> None:
    daemon, _ = server
    contents = {"continued scan.pdf": content("scan.pdf", 99)}
    (path,) = placed(tmp_path / "client", contents)
    (tmp_path / "half").write_bytes(path.read_bytes()[:100_000])
    last = daemon.inbox / path.name
    subprocess.run(sftp(server, tmp_path, f'put "{tmp_path / "half"}" "{last}"'), check=True, capture_output=True)
    daemon.wait(lambda: waits_for_more(daemon, path.name))
    subprocess.run(sftp(server, tmp_path, f'reput "{path}" "{last}"'), check=True, capture_output=True)
    all_came_once_and_whole(daemon, contents)
