"""For every test: the tiny checkpoint is unpacked, logs are as structlog has them unless it sets them up itself, and
nothing is judged by its speed: the machine may be busy with something else.
"""

from __future__ import annotations

import pytest
import structlog
from hypothesis import HealthCheck, settings
from tests.tiny_lightonocr import weights

settings.register_profile("inboxd", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("inboxd")


def pytest_configure() -> None:
    weights.unpack()


@pytest.fixture(autouse=True)
def fresh_logs() -> None:
    """What an earlier test configured, a level above info perhaps, must not hide events from this one."""
    structlog.reset_defaults()
