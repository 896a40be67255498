"""Two vLLM engines on this machine's processors, as they would stand on two GPUs: `name = "vllm-pair"`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from inboxd.engines.fleet import Fleet
from inboxd.engines.protocol import Engine
from inboxd.engines.vllm_local import VllmEngine
from inboxd.engines.vllm_plan import plans

if TYPE_CHECKING:
    from inboxd.config import Settings


def create(settings: Settings) -> Engine:
    """What the entry point names."""
    (plan,) = plans(settings)
    logs = {"first": plan.log, "second": plan.log.with_name("vllm1.log")}
    return Fleet({name: VllmEngine(replace(plan, log=log)) for name, log in logs.items()}, settings.engine.page_timeout)
