"""Runs one life of the daemon: the rooms that `house` builds, from the row in `runs` to the exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import time
import traceback
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path

import structlog

from inboxd import __version__, faults, logs, signals
from inboxd.config import Settings
from inboxd.core.naming import display
from inboxd.drain import Progress
from inboxd.engines import registry
from inboxd.errors import ConfigError, Defect, Exit, InboxdError
from inboxd.house import House, build
from inboxd.ledger import lock, runs
from inboxd.ledger.opening import Ledger
from inboxd.model import RunId
from inboxd.notify import Notifier
from inboxd.reloading import reread
from inboxd.rooms.stopping import unless

log = structlog.get_logger(__name__)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
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
        self._house: House | None = None
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
                self._house = await build(self._settings, self._ledger, run_id, self._notifier, self.end)
                drain = partial(self._house.drain.run, self._stop, until_drained, self.end, on_progress)
                course = _Course(self._house, self._ledger, run_id, self._stop)
                await course.run(self._settings.drain_timeout, drain)
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
            if self._house is not None:
                self._house.chores.reload(again.settings)
                self._house.checkup.settings = again.settings.health
            log.info("configuration read again", changed_at_once=", ".join(again.at_once) or "nothing")
            if again.at_restart:
                log.warning("these settings change at the next start only", settings=", ".join(again.at_restart))
        self._notifier.ready()


class _Course:
    """The rooms at work: what runs, and how it ends. The doors between them close in the order of the data."""

    def __init__(self, house: House, ledger: Ledger, run_id: RunId, stop: asyncio.Event) -> None:
        self._house = house
        self._ledger = ledger
        self._run_id = run_id
        self._stop = stop
        self._engine_started = asyncio.Event()
        self._claimed, self._read = asyncio.Event(), asyncio.Event()  # set once no more can come of it

    async def run(self, drain_timeout: float, drain: Callable[[], Coroutine[None, None, None]]) -> None:
        """Until `stop`, and then until what is in flight is finished or put back. Closes the engine and the pool.

        `drain_timeout` is in seconds, for systemd to know of; `drain` watches the progress beside the rooms.

        Raises:
            InboxdError: no render process can be started.
            ExceptionGroup: what the rooms died of.
        """
        house, stop = self._house, self._stop
        await house.pool.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(house.inbox.run(stop), name="inbox")
                group.create_task(house.intake.run(stop), name="intake")
                group.create_task(self._claim(), name="claiming")
                group.create_task(self._read_pages(), name="reading")
                group.create_task(house.muster.run(self._engine_started, stop), name="muster")
                group.create_task(house.assembly.run(self._read), name="assembly")
                group.create_task(house.chores.run(stop), name="chores")
                group.create_task(drain(), name="drain")
                group.create_task(self._ring_at_the_end(), name="end")
                group.create_task(house.herald.run(stop, drain_timeout), name="herald")
                group.create_task(house.heartbeat.run(stop), name="heartbeat")
        finally:
            await house.engine.close()
            await house.pool.close()

    async def _claim(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._house.opening.run(self._stop), name="opening")
            group.create_task(self._house.rendering.run(self._stop), name="rendering")
        self._claimed.set()

    async def _read_pages(self) -> None:
        reading, desk = self._house.reading, self._house.desk
        info = await unless(self._stop, reading.start())
        if info is not None:
            await self._ledger.write(runs.engine_started, self._run_id, info, now=time.time())
            self._house.rendering.bell.ring()
            self._engine_started.set()
            await reading.run(self._claimed)
        await self._claimed.wait()
        await desk.release(list(desk.claimed.values()))
        self._read.set()

    async def _ring_at_the_end(self) -> None:
        """Wake whoever waits for work, one after the other, to see that none will come."""
        house = self._house
        await self._stop.wait()
        for room in (house.opening, house.rendering):
            room.bell.ring()
        await self._claimed.wait()
        house.reading.bell.ring()
        await self._read.wait()
        house.assembly.ring()
        self._engine_started.set()


def _cause(trouble: BaseException) -> BaseException:
    """What a person should hear of first: an error with advice if there is one in the group."""
    if not isinstance(trouble, BaseExceptionGroup):
        return trouble
    causes = [_cause(error) for error in trouble.exceptions]
    return next((error for error in causes if isinstance(error, InboxdError)), causes[0])
