"""Builds the rooms of one life of the daemon, and the doors between them; `service` runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from inboxd import beginning
from inboxd.chores import Chores
from inboxd.config import Settings
from inboxd.core.retrying import RetryPolicy
from inboxd.drain import Drain
from inboxd.engines import registry
from inboxd.engines.protocol import Engine
from inboxd.errors import Exit
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.model import Gone, RunId, Sighting
from inboxd.notify import Notifier
from inboxd.rooms.assembly import AssemblyRoom
from inboxd.rooms.bell import Bell
from inboxd.rooms.checkup import Checkup
from inboxd.rooms.desk import Desk
from inboxd.rooms.heartbeat import Heartbeat, Promises
from inboxd.rooms.herald import READING, Herald
from inboxd.rooms.inbox import InboxRoom
from inboxd.rooms.intake import IntakeRoom
from inboxd.rooms.muster import Muster
from inboxd.rooms.opening import OpeningRoom
from inboxd.rooms.outputs import Outputs
from inboxd.rooms.reading import ReadingRoom
from inboxd.rooms.render.pool import RenderPool
from inboxd.rooms.rendering import RenderingRoom
from inboxd.rooms.vitals import Pulse, Vitals

DOOR = 256
"""Folders' worth of sightings that may wait between the inbox and intake."""


@dataclass(frozen=True, slots=True)
class House:
    """What one life consists of. Nothing in it runs yet; `engine` and `pool` are the caller's to close."""

    engine: Engine
    pool: RenderPool
    # In the order of the data.
    inbox: InboxRoom
    intake: IntakeRoom
    opening: OpeningRoom
    desk: Desk
    rendering: RenderingRoom
    reading: ReadingRoom
    assembly: AssemblyRoom
    # About the daemon itself.
    checkup: Checkup
    chores: Chores
    muster: Muster
    drain: Drain
    heartbeat: Heartbeat
    herald: Herald


async def build(
    settings: Settings, ledger: Ledger, run_id: RunId, notifier: Notifier, end: Callable[[Exit, str], None]
) -> House:
    """Take up what an earlier life left behind, and build the rooms of this one.

    `end` begins the orderly end of the life, with the exit code and the reason.

    Raises:
        InboxdError: the ledger was lost, or no engine can be had.
    """

    def reader() -> Reader:
        return Reader(settings.ledger_path)

    retry = settings.retry
    policy = RetryPolicy(retry.attempts, retry.first_delay, retry.max_delay, retry.deaths)
    workers = settings.render_workers
    inboxes = await beginning.register(ledger, settings.inbox)
    spool = await beginning.take_up(ledger, reader, settings.spool_dir, run_id, list(inboxes))

    engine = registry.create(settings)
    pool = RenderPool(settings.render, workers, engine.limits.longest_edge, engine.limits.grid)
    assembly = AssemblyRoom(ledger, reader, Outputs(reader), inboxes)
    claim_bell, pulse, promises = Bell(), Pulse(), Promises()
    desk = Desk(ledger, run_id, policy, claim_bell, on_complete=assembly.ring)
    reading = ReadingRoom(engine, desk, settings.engine.page_timeout, settings.drain_timeout, pulse, promises)
    languages = {inbox: own.settings.language for inbox, own in inboxes.items() if own.settings.language}
    rendering = RenderingRoom(spool, pool, desk, reading.window, reading.offer, workers, claim_bell, languages)
    opening = OpeningRoom(
        ledger,
        run_id,
        spool,
        pool,
        policy,
        workers,
        wanted=rendering.wanted,
        on_opened=claim_bell.ring,
        on_complete=assembly.ring,
    )
    door: asyncio.Queue[tuple[Sighting | Gone, ...]] = asyncio.Queue(DOOR)
    inbox = InboxRoom(list(inboxes.values()), door, reader, ledger)
    intake = IntakeRoom(
        settings.intake,
        list(inboxes.values()),
        door,
        ledger,
        spool,
        wake=opening.bell.ring,
        rescan=lambda: inbox.rescan(None),
        no_space=inbox.no_space,
    )

    checkup = Checkup(settings.health, Vitals(pulse), engine, ledger, reader, run_id, end, promises)
    muster = Muster(engine, ledger, run_id)

    def activity() -> str:
        return checkup.trouble or muster.missing or (READING if reading.info else "starting the engine")

    return House(
        engine=engine,
        pool=pool,
        inbox=inbox,
        intake=intake,
        opening=opening,
        desk=desk,
        rendering=rendering,
        reading=reading,
        assembly=assembly,
        checkup=checkup,
        chores=Chores(settings, ledger, reader, inbox, spool, checkup.check, end),
        muster=muster,
        drain=Drain(reader, inbox, intake, activity),
        heartbeat=Heartbeat(notifier, promises),
        herald=Herald(notifier, reader, activity, lambda: inbox.scans_everywhere() > 0),
    )
