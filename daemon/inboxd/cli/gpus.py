"""`inboxd gpus`: the GPUs that are there, how each would be used, and what to expect of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inboxd.cli import given
from inboxd.cli.printing import print_json, say, size, table
from inboxd.core.showing import one_line
from inboxd.errors import EngineUnusable, Exit

if TYPE_CHECKING:
    from inboxd.gpus import Gpu
    from inboxd.profiles import Model, Profiles

_DAY = 24 * 60 * 60


@click.command()
@given.config_option
@given.json_option
def gpus(config: Path | None, as_json: bool) -> None:
    """Show the GPUs, their profiles, and what to expect.

    The pages a second and a day are a roofline of the card's data sheet for A4 pages of 800 tokens: expect them
    within a factor of two. docs/tuning.md has what was measured. The configuration's model and profiles count
    where there is one.
    """
    from inboxd import profiles
    from inboxd.gpus import detect

    settings = given.settings_or_defaults(config)
    rows = profiles.load(settings.engine.profiles)
    model = rows.model(settings.engine.model_profile or settings.engine.model or "") or rows.default_model
    found = detect()
    told = [_told(gpu, model, rows, settings.engine.gpu_profile) for gpu in found.gpus]
    if as_json:
        print_json({"driver": found.driver, "model": model.name, "gpus": told, "trouble": found.trouble})
    else:
        _print(told, found.driver, model.name)
        for trouble in found.trouble:
            say(trouble, error=True)
    if not any("refused" not in gpu for gpu in told):
        raise click.exceptions.Exit(Exit.FAILED)


def _told(gpu: Gpu, model: Model, rows: Profiles, chosen: str | None) -> dict[str, Any]:
    from inboxd.engines.vllm_plan import sizes

    facts = asdict(gpu)
    try:
        profile = rows.gpu(chosen) if chosen else rows.gpu_for(gpu)
    except EngineUnusable as error:
        return {**facts, "refused": error.what}
    found = sizes(model, profile, rows.shapes.get(model.shape), (gpu,))
    rate = found.expected.pages_s if found.expected else None
    return {
        **facts,
        "profile": profile.name,
        "dtype": profile.dtype,
        "kv_dtype": profile.kv_dtype,
        "batched_tokens": profile.batched_tokens,
        "seats": profile.seats,
        "kv_tokens": found.kv_tokens,
        "pages_in_flight": found.window,
        "batch_pages": found.batch_pages,
        "batch_wait_s": profile.batch_wait_s,
        "source": profile.source,
        "pages_s": rate and round(rate, 1),
        "pages_day": rate and round(rate * _DAY, -3),
    }


def _print(told: list[dict[str, Any]], driver: str, model: str) -> None:
    if not told:
        return
    say(f"NVIDIA driver {driver}; figures for {model}")
    table(
        ("GPU", "name", "memory", "free", "cc", "profile", "pages in flight", "micro-batch", "pages/s", "pages/day"),
        (
            (
                gpu["index"],
                gpu["name"],
                size(gpu["total"]),
                size(gpu["free"]),
                ".".join(map(str, gpu["capability"])),
                gpu.get("profile", "refused"),
                gpu.get("pages_in_flight"),
                gpu.get("batch_pages"),
                gpu.get("pages_s"),
                f"{gpu['pages_day']:,.0f}" if gpu.get("pages_day") else None,
            )
            for gpu in told
        ),
    )
    for gpu in told:
        if "refused" in gpu:
            say(gpu["refused"])
        for holder in gpu["holders"]:
            held = "" if holder["used"] is None else f" {size(holder['used'])}"
            say(f"GPU {gpu['index']}: {one_line(holder['name'])} (pid {holder['pid']}) holds{held}")
