"""One machine for all of these tests, and inboxd freshly installed on it for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.systemd.machine import Machine, unfit
from tests.systemd.service import Service


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if why := unfit():
        pytest.skip(why)
    machine = Machine(tmp_path_factory.mktemp("machine"))
    try:
        machine.boot()
        yield machine
    finally:
        machine.power_off()


@pytest.fixture
def service(machine: Machine) -> Iterator[Service]:
    service = Service(machine)
    service.install()
    try:
        yield service
    finally:
        service.remove()
