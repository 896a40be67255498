"""The composition root: builds the rooms and the doors between them, and runs one life of the daemon."""

from __future__ import annotations

import asyncio
import logging
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import structlog

from inboxd import __version__, beginning, faults, logs, signals
from inboxd.chores import Chores
from inboxd.config import Settings
from inboxd.core.naming import display
from inboxd.core.retrying import RetryPolicy
from inboxd.drain import Drain, Progress
from inboxd.engines import registry
from inboxd.errors import ConfigError, Defect, Exit, InboxdError
from inboxd.ledger import lock, runs
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.model import Gone, RunId, Sighting
from inboxd.notify import Notifier
from inboxd.reloading import reread
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
from inboxd.rooms.stopping import unless
from inboxd.rooms.vitals import Pulse, Vitals

log = structlog.get_logger(__name__)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
DOOR = 256
"""Folders' worth of sightings that may wait between the inbox and intake."""

OPEN_S = 3600.0
"""Seconds that systemd is asked for while the ledger is opened: a large one may have to be brought up to date."""

OnProgress = Callable[[Progress], None]


def run(
    settings: Settings, config: Path, *, until_drained: bool = False, on_progress: OnProgress | None = None
) -> Exit:
    """Live one life of the daemon: until a signal, a planned restart or, if asked, until every file is final.

    `config` is where the settings came from, for SIGHUP to read them again.

    Raises:
        InboxdError: what stopped it, for a person; its exit code is the process's.
    """
    if not settings.inbox:
        raise ConfigError("no [[inbox]] is configured", "Add one, with the path of the folder to watch.")
    try:
        settings.state_dir.mkdir(mode=0o750, parents=True, exist_ok=True)  # the ledger holds every text
    except OSError as error:
        folder = display(os.fsencode(settings.state_dir))
        raise ConfigError(
            f"cannot make the state folder {folder}: {error.strerror}",
            "Make it yourself for the daemon's user, or set `state` to a folder that this user can write.",
        ) from error
    notifier = Notifier()
    notifier.status("opening the ledger")
    notifier.extend(OPEN_S)
    with lock.own(settings.ledger_path):
        ledger = Ledger.open(settings.ledger_path)
        try:
            return asyncio.run(_Life(settings, config, ledger, notifier).live(until_drained, on_progress))
        finally:
            ledger.close()


class _Life:
    """One life, from its row in `runs` to its exit code."""

    def __init__(self, settings: Settings, config: Path, ledger: Ledger, notifier: Notifier) -> None:
        self._settings = settings
        self._config = config
        self._ledger = ledger
        self._notifier = notifier
        self._promises = Promises()
        self._chores: Chores | None = None
        self._checkup: Checkup | None = None
        self._stop = asyncio.Event()
        self._exit, self._why = Exit.OK, ""

    async def live(self, until_drained: bool, on_progress: OnProgress | None) -> Exit:
        """Build the rooms, run them, and record how it ended.

        Raises:
            InboxdError: a room met what the daemon can't go on with; a `Defect` if it has no name.
        """
        choice = registry.choose(self._settings)
        log.info("inboxd starts", version=__version__, engine=choice.name, because=choice.why)
        with signals.heeded(self._on_signal, self._reload):
            run_id = await self._ledger.write(
                runs.start_run,
                version=__version__,
                pid=os.getpid(),
                boot_id=BOOT_ID.read_text().strip(),
                engine=choice.name,
                now=time.time(),
            )
            faults.point("service.begun")
            try:
                await self._rooms(run_id, until_drained, on_progress)
            except Exception as trouble:
                error = _cause(trouble)
                if isinstance(error, InboxdError):
                    self._exit, self._why = error.exit_code, error.what
                    raise error from trouble
                self._exit, self._why = Exit.SOFTWARE, f"a defect: {error!r}"
                traceback.print_exception(trouble)  # as many lines as it takes, which no event has
                raise Defect(self._why, "The traceback above tells where: please report it.") from trouble
            finally:
                await self._ledger.write(runs.end_run, run_id, int(self._exit), self._why, now=time.time())
                faults.point("service.ended")
                level = logging.INFO if self._exit in (Exit.OK, Exit.RECYCLE) else logging.ERROR
                log.log(level, "inboxd ends", exit_code=int(self._exit), reason=self._why)
        return self._exit

    def end(self, code: Exit, why: str) -> None:
        """Begin the orderly end of this life; the first reason given is the one that counts."""
        if not self._stop.is_set():
            self._exit, self._why = code, why
            self._stop.set()

    def _on_signal(self, name: str) -> None:
        if self._stop.is_set():
            # Nothing is lost by dying hard: the next life puts back what this one held.
            log.warning("second signal: leaving at once", signal=name)
            os._exit(Exit.FAILED)
        self.end(Exit.OK, f"stopped by {name}")

    def _reload(self) -> None:
        """Read the configuration again: some of it holds at once, the rest is named."""
        self._notifier.reloading()
        try:
            again = reread(self._config, self._settings)
        except ConfigError as error:
            log.error("the configuration is wrong, the old one goes on to hold", reason=error.what)
        else:
            self._settings = again.settings
            logs.set_level(again.settings.log_level)
            if self._chores is not None and self._checkup is not None:
                self._chores.reload(again.settings)
                self._checkup.settings = again.settings.health
            log.info("configuration read again", changed_at_once=", ".join(again.at_once) or "nothing")
            if again.at_restart:
                log.warning("these settings change at the next start only", settings=", ".join(again.at_restart))
        self._notifier.ready()

    async def _rooms(self, run_id: RunId, until_drained: bool, on_progress: OnProgress | None) -> None:
        settings, ledger = self._settings, self._ledger
        retry = settings.retry
        policy = RetryPolicy(retry.attempts, retry.first_delay, retry.max_delay, retry.deaths)
        workers = settings.render_workers
        inboxes = await beginning.register(ledger, settings.inbox)
        spool = await beginning.take_up(ledger, self._reader, settings.spool_dir, run_id, list(inboxes))

        engine = registry.create(settings)
        pool = RenderPool(settings.render, workers, engine.limits.longest_edge, engine.limits.grid)
        outputs = Outputs(self._reader)
        assembly = AssemblyRoom(ledger, self._reader, outputs, inboxes)
        claim_bell = Bell()
        desk = Desk(ledger, run_id, policy, claim_bell, on_complete=assembly.ring)
        pulse = Pulse()
        reading = ReadingRoom(engine, desk, settings.engine.page_timeout, settings.drain_timeout, pulse, self._promises)
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
        inbox = InboxRoom(list(inboxes.values()), door, self._reader, ledger)
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
        self._checkup = checkup = Checkup(
            settings.health, Vitals(pulse), engine, ledger, self._reader, run_id, self.end, self._promises
        )
        self._chores = chores = Chores(settings, ledger, self._reader, inbox, spool, checkup.check, self.end)

        muster = Muster(engine, ledger, run_id)

        def activity() -> str:
            return checkup.trouble or muster.missing or (READING if reading.info else "starting the engine")

        drain = Drain(self._reader, inbox, intake, activity)
        heartbeat = Heartbeat(self._notifier, self._promises)
        herald = Herald(self._notifier, self._reader, activity, lambda: inbox.scans_everywhere() > 0)

        started = asyncio.Event()
        claimed, read = asyncio.Event(), asyncio.Event()  # the doors close in the order of the data

        async def claim() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(opening.run(self._stop), name="opening")
                group.create_task(rendering.run(self._stop), name="rendering")
            claimed.set()

        async def read_pages() -> None:
            info = await unless(self._stop, reading.start())
            if info is not None:
                await ledger.write(runs.engine_started, run_id, info, now=time.time())
                rendering.bell.ring()
                started.set()
                await reading.run(claimed)
            await claimed.wait()
            await desk.release(list(desk.claimed.values()))
            read.set()

        async def ring_at_the_end() -> None:
            await self._stop.wait()
            for room in (opening, rendering):
                room.bell.ring()
            await claimed.wait()
            reading.bell.ring()
            await read.wait()
            assembly.ring()
            started.set()

        await pool.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(inbox.run(self._stop), name="inbox")
                group.create_task(intake.run(self._stop), name="intake")
                group.create_task(claim(), name="claiming")
                group.create_task(read_pages(), name="reading")
                group.create_task(muster.run(started, self._stop), name="muster")
                group.create_task(assembly.run(read), name="assembly")
                group.create_task(chores.run(self._stop), name="chores")
                group.create_task(drain.run(self._stop, until_drained, self.end, on_progress), name="drain")
                group.create_task(ring_at_the_end(), name="end")
                group.create_task(herald.run(self._stop, settings.drain_timeout), name="herald")
                group.create_task(heartbeat.run(self._stop), name="heartbeat")
        finally:
            await engine.close()
            await pool.close()

    def _reader(self) -> Reader:
        return Reader(self._settings.ledger_path)


def _cause(trouble: BaseException) -> BaseException:
    """What a person should hear of first: an error with advice if there is one in the group."""
    if not isinstance(trouble, BaseExceptionGroup):
        return trouble
    causes = [_cause(error) for error in trouble.exceptions]
    return next((error for error in causes if isinstance(error, InboxdError)), causes[0])
