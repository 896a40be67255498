"""What systemd hears from us, over a real datagram socket, named and abstract."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from inboxd.notify import Notifier


class Manager:
    """A service manager's end of the notification socket."""

    def __init__(self, address: str) -> None:
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.door.bind("\0" + address[1:] if address.startswith("@") else address)
        self.door.setblocking(False)
        self.environ = {"NOTIFY_SOCKET": address}

    def heard(self) -> list[list[str]]:
        messages = []
        while True:
            try:
                messages.append(self.door.recv(65536).decode().split("\n"))
            except BlockingIOError:
                return messages


@pytest.fixture(params=["named", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(f"@inboxd-test-{os.getpid()}" if request.param == "abstract" else str(tmp_path / "notify"))
    yield manager
    manager.door.close()


def test_a_life_as_systemd_hears_it(manager: Manager) -> None:
    notifier = Notifier(manager.environ)
    notifier.ready("loading the model")
    notifier.status("reading page 3 of 40")
    notifier.alive()
    notifier.extend(90.5)
    notifier.stopping("draining: 4 pages in flight")
    assert manager.heard() == [
        ["READY=1", "STATUS=loading the model"],
        ["STATUS=reading page 3 of 40"],
        ["WATCHDOG=1"],
        ["EXTEND_TIMEOUT_USEC=90500000"],
        ["STOPPING=1", "STATUS=draining: 4 pages in flight"],
    ]


def test_what_systemd_waits_for_is_not_lost_while_it_is_busy(manager: Manager) -> None:
    notifier = Notifier(manager.environ)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other, suppress(BlockingIOError):
        other.setblocking(False)
        while True:
            other.sendto(b"EXTEND_TIMEOUT_USEC=1", notifier._address)
    notifier.alive()  # dropped: the next one will do
    heard, go, sent = [], threading.Event(), threading.Event()

    def wake_up() -> None:
        go.wait()
        while not sent.is_set():
            heard.extend(manager.heard())

    systemd = threading.Thread(target=wake_up)
    systemd.start()
    go.set()
    notifier.ready()
    sent.set()
    systemd.join()
    assert [*heard, *manager.heard()][-1] == ["READY=1"]
    assert ["WATCHDOG=1"] not in heard


def test_reloading_carries_the_time_that_notify_reload_wants(manager: Manager) -> None:
    Notifier(manager.environ).reloading()
    [[reloading, stamp]] = manager.heard()
    assert reloading == "RELOADING=1"
    assert stamp.removeprefix("MONOTONIC_USEC=").isdigit()


def test_a_status_is_one_line_and_said_once(manager: Manager) -> None:
    notifier = Notifier(manager.environ)
    notifier.status("two\nlines  and\udce9\x1b[31m a name")
    notifier.status("two lines and\udce9\x1b[31m a name")
    notifier.status("")
    assert manager.heard() == [[r"STATUS=two lines and\xe9\x1b[31m a name"]]


def test_it_is_silent_without_a_manager() -> None:
    notifier = Notifier({"WATCHDOG_USEC": "1000000"})
    notifier.ready("nobody listens")
    assert notifier.watchdog_s is None


def test_the_watchdog_is_only_ours_if_it_names_us(manager: Manager) -> None:
    period = {**manager.environ, "WATCHDOG_USEC": "60000000"}
    assert Notifier(period).watchdog_s == 60.0
    assert Notifier({**period, "WATCHDOG_PID": str(os.getpid())}).watchdog_s == 60.0
    assert Notifier({**period, "WATCHDOG_PID": "1"}).watchdog_s is None
    assert Notifier(manager.environ).watchdog_s is None


def test_a_manager_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready("still here")
