"""bench/gpu.py: the whole daemon, on one GPU or several, also with one engine killed in mid-work."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu_measure import Bench, Gauge, cpu, measuring, run_record
from gpu_ours import Forced, build
from gpu_parts import Parts, bottleneck

KILL_AT = 0.15
"""Share of the pages after which an engine is killed: early, so that it comes back while there is work left."""
BACK_S = 150.0
"""How long a killed engine is waited for."""

_SHARED: dict[str, Any] = {}


def daemon(gpus: int = 1, tensor: int = 1, kill: bool = False, **profile: Any) -> Callable[[Bench], None]:
    """A section: PDFs in an inbox to Markdown beside them, an engine on each of so many GPUs, or on `tensor` each."""

    def section(bench: Bench) -> None:
        from inboxd import cli
        from inboxd.engines import registry

        _show(gpus)
        settings = bench.settings(**profile)
        inbox, config = _configured(bench, settings, 1 if bench.dry else tensor)
        # An iterator that all engines draw from, so that together they write what one would.
        due = itertools.cycle(bench.lengths(bench.pages))
        _SHARED.update(due=due, read=Counter(), cpus=gpus // tensor if bench.dry else 0)
        registry.BUILTIN["vllm"] = replace(registry.BUILTIN["vllm"], target=f"{__name__}:create")
        killed: dict[str, Any] = {}
        if kill:
            watcher = threading.Thread(target=_kill, args=(settings.ledger_path, bench.pages, killed), daemon=True)
            watcher.start()
        parts = Parts()
        with measuring() as gauge:
            began, spent = time.monotonic(), cpu()
            code = cli.main(["run", "--config", str(config), *([] if kill else ["--until-drained"])])
            wall = time.monotonic() - began
        killed["ended"] = True
        parts.close()
        shutil.copy(settings.ledger_path, bench.out / f"{bench.section}.sqlite")
        facts = {"exit": int(code), "life_s": round(wall, 1), "shares": dict(_SHARED["read"]), **delivered_once(inbox)}
        facts["missing"] = [missing for (missing,) in _ask(settings.ledger_path, MISSING)]
        bench.record("daemon", **facts)
        bench.say("DAEMON", facts)
        if not any(facts["shares"].values()):
            raise RuntimeError(f"the daemon read nothing, and ended with {int(code)}")
        told = _from_ledger(bench, settings.ledger_path, gauge, cpu() - spent)
        _by_part(bench, parts, gauge, gpus, **told)
        if kill:
            _comeback(bench, settings.ledger_path, killed)

    return section


def create(settings: Any) -> Any:
    """The factory that the daemon's registry is pointed at."""
    engine = _on_processors(settings, _SHARED["cpus"]) if _SHARED["cpus"] > 1 else build(settings)
    for name, each in _each(engine):
        _counted(Forced(each, _SHARED["due"]), name)
    return engine


def delivered_once(inbox: Path) -> dict[str, int]:
    """How many pages stand in exactly one place of the outputs; what else there is of pages."""
    seen: Counter[tuple[str, int]] = Counter()
    states: Counter[str] = Counter()
    for output in inbox.rglob("*.pdf.json"):
        for page in json.loads(output.read_text())["pages"]:
            seen[output.name, page["number"]] += 1
            states[page["state"]] += 1
    return {"pages_once": sum(count == 1 for count in seen.values()), "pages_twice": sum(seen.values()) - len(seen)} | {
        f"pages_{state}": count for state, count in states.items()
    }


def partial(bench: Bench) -> None:
    """What a section that ran out of time had reached, from its ledger."""
    with suppress(IndexError, sqlite3.Error, ZeroDivisionError, TypeError):
        _from_ledger(bench, bench.states()[-1] / "ledger.sqlite", None, 0.0, cut="out of time")


def _show(gpus: int) -> None:
    """Leave the first so many GPUs visible."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(index) for index in range(64)]
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(names[:gpus])


def _configured(bench: Bench, settings: Any, tensor: int) -> tuple[Path, Path]:
    state, engine = settings.state_dir, settings.engine
    inbox, config = state.parent / f"inbox-{state.name}", state / "inboxd.toml"
    shutil.copytree(bench.pdfs(bench.pages)[0].parent, inbox)
    config.write_text(
        f'state = "{state}"\nlog_level = "info"\n[engine]\nname = "vllm"\nmodel = "{engine.model}"\n'
        f'model_profile = "dummy"\ngpu_profile = "bench"\nprofiles = "{engine.profiles}"\n'
        f'tensor_parallel = {tensor}\n[[inbox]]\npath = "{inbox}"\nsettle = 0.2\n'
    )
    return inbox, config


def _on_processors(settings: Any, count: int) -> Any:
    """For --dry: so many engines of vLLM's CPU build, as if each had a GPU."""
    from inboxd.engines import vllm_plan
    from inboxd.engines.fleet import Fleet
    from inboxd.engines.vllm_local import VllmEngine

    (plan,) = vllm_plan.plans(settings)
    logs = [plan.log.with_name(f"vllm{number or ''}.log") for number in range(count)]
    engines = {f"CPU {number}": VllmEngine(replace(plan, log=log)) for number, log in enumerate(logs)}
    return Fleet(engines, settings.engine.page_timeout)


def _each(engine: Any) -> list[tuple[str, Any]]:
    members = getattr(engine, "_members", None)
    return [(member.name, member.engine) for member in members] if members else [("only", engine)]


def _counted(engine: Any, name: str) -> None:
    answered = engine._text

    def counted(*arguments: Any) -> Any:
        _SHARED["read"][name] += 1
        return answered(*arguments)

    engine._text = counted


def _kill(path: Path, pages: int, killed: dict[str, Any]) -> None:
    """SIGKILL the process group of the youngest engine once enough pages are done; end the daemon when all are, and
    the engine is back."""
    while _count(path, DONE) < KILL_AT * pages:
        time.sleep(0.2)
    victim = max(_front_ends())
    killed.update(pid=victim, at=time.time(), pages_done=_count(path, DONE))
    os.killpg(victim, signal.SIGKILL)
    while time.time() < killed["at"] + BACK_S and not (_count(path, BACK) > 0 and _count(path, OPEN) == 0):
        time.sleep(0.2)
    if "ended" not in killed:
        os.kill(os.getpid(), signal.SIGTERM)


def _front_ends() -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"inboxd.engines.vllm_child" in (entry / "cmdline").read_bytes():
                yield int(entry.name)


def _count(path: Path, query: str) -> int:
    with suppress(sqlite3.Error):
        return int(_ask(path, query)[0][0])
    return -1


def _comeback(bench: Bench, path: Path, killed: dict[str, Any]) -> None:
    """When the killed engine was missed and was back, in seconds after its death, and what it cost its pages."""
    events = _ask(path, "SELECT event, julianday(at), detail FROM events WHERE event LIKE 'engines%' ORDER BY id")
    deaths = dict(_ask(path, "SELECT deaths, count(*) FROM pages GROUP BY deaths"))
    died = killed.get("at", 0.0)
    timeline = [(event, round(_unix(at) - died, 1), detail) for event, at, detail in events]
    back = next((at for event, at, _ in timeline if event == "engines complete" and at > 0), None)
    facts = {"pages_done_then": killed.get("pages_done"), "back_after_s": back, "pages_by_deaths": deaths}
    bench.record("killed", timeline=timeline, **facts)
    bench.say("KILLED", facts, timeline)


def _by_part(bench: Bench, parts: Parts, gauge: Gauge, gpus: int, start: float, ends: list[float]) -> None:
    """CPU by part over the whole run, and the bottleneck in its middle, without ramp and tail."""
    if not ends:
        return
    wall = ends[-1] - start
    whole = parts.used(start, ends[-1])
    middle = ends[int(len(ends) * 0.2)], ends[int(len(ends) * 0.8)]
    span = max(middle[1] - middle[0], 0.01)
    cores = {part: [round(each / span, 2) for each in used] for part, used in parts.used(*middle).items()}
    busy = gauge.busy(*middle)[:gpus]
    facts = {
        "cpu_s_a_page": {part: round(sum(used) / len(ends), 4) for part, used in whole.items()},
        "cores_a_gpu": round(sum(map(sum, whole.values())) / wall / gpus, 2),
        "cores_middle": cores,
        "busy_middle": busy,
        "bottleneck": bottleneck(busy, cores),
    }
    bench.record("parts", **facts)
    bench.say("PARTS", facts)


def _from_ledger(bench: Bench, path: Path, gauge: Gauge | None, cpu_s: float, **more: Any) -> dict[str, Any]:
    """When pages were done, by the ledger, from the moment that the engine was ready."""
    shift = time.monotonic() - time.time()
    ends = sorted(_unix(at) + shift for (at,) in _ask(path, SQL_ENDS))
    start = _unix(_ask(path, SQL_START)[0][0]) + shift
    states = dict(_ask(path, "SELECT state, count(*) FROM pages GROUP BY state"))
    tokens = _ask(path, "SELECT total(tokens_out) FROM pages")[0][0]
    told = dict(zip(("render_s", "queue_s", "first_token_s", "seconds"), _ask(path, SQL_SPANS)[0], strict=True))
    run_record(bench, "daemon", ends, start, tokens, gauge, cpu_s, states=states, **told, **more)
    return {"start": start, "ends": ends}


def _ask(path: Path, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def _unix(day: float) -> float:
    """SQLite's julianday as seconds since 1970."""
    return (day - 2440587.5) * 86400


DONE = "SELECT count(*) FROM pages WHERE finished IS NOT NULL"
BACK = "SELECT count(*) FROM events WHERE event = 'engines complete'"
MISSING = "SELECT detail FROM events WHERE event = 'engines missing' ORDER BY id"
OPEN = "SELECT count(*) FROM files WHERE finished IS NULL"
SQL_ENDS = "SELECT julianday(finished) FROM pages WHERE finished IS NOT NULL"
SQL_START = "SELECT julianday(min(claimed)) FROM pages"
SQL_SPANS = "SELECT avg(render_s), avg(queue_s), avg(first_token_s), avg(seconds) FROM pages"
