"""For every test: nothing is judged by how long it took, since the machine may be busy with something else."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("inboxd", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("inboxd")
