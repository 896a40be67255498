"""TOML → frozen settings. Every default of inboxd stands here; unknown or impossible settings are refused by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from inboxd import allowance
from inboxd.core.health import Policy
from inboxd.errors import ConfigError

_MOST = 2**63 - 1  # what SQLite and the kernel's limits can hold
Seconds = Annotated[float, msgspec.Meta(ge=0)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1, le=_MOST)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
Rank = Annotated[int, msgspec.Meta(ge=-_MOST, le=_MOST)]
Days = Annotated[int, msgspec.Meta(ge=0, le=36_500)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Ratio = Annotated[float, msgspec.Meta(ge=0)]
Format = Literal["md", "json", "txt"]

DEFAULT_CONFIG = Path("/etc/inboxd/inboxd.toml")
DEFAULT_STATE = Path("/var/lib/inboxd")


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the configuration file."""


class Inbox(_Section, frozen=True):
    """One watched folder: `[[inbox]]`."""

    path: str  # absolute; bytes that are not UTF-8 may stand in the file as they are, and os.fsencode gives them back
    recursive: bool = True
    include: tuple[str, ...] = ("*",)  # globs on the file's name, case-insensitive
    exclude: tuple[str, ...] = ()  # globs on the path below the inbox, case-insensitive
    settle: Positive = 3.0  # seconds without a change before a file is taken
    max_settle: Positive = 60.0  # seconds without a change after which an incomplete file is quarantined
    watch: Literal["auto", "events", "poll"] = "auto"
    poll_interval: Positive = 5.0  # seconds between scans where events cannot be trusted
    rescan_interval: Positive = 60.0  # seconds between scans where events are watched too
    outputs: tuple[Format, ...] = ("md", "json")
    output_dir: str | None = None  # absolute; mirrors the inbox's folders; None: beside the original
    after: Literal["keep", "archive"] = "keep"
    archive_dir: str | None = None  # absolute; where `after = "archive"` moves the originals
    priority: Rank = 0  # higher first
    language: str | None = None  # told to models that take instructions: "German", "traditional Chinese"


class Intake(_Section, frozen=True):
    """`[intake]`: from the inbox to the spool."""

    max_file_bytes: Count = 4 * 1024**3  # larger files are quarantined, saying by how much
    backlog: Count = 2000  # files spooled and not yet opened; intake waits beyond that
    min_free_bytes: Natural = 512 * 1024**2  # intake pauses while the spool's disk has less


class Render(_Section, frozen=True):
    """`[render]`: the worker processes that open untrusted files."""

    workers: Natural = 0  # 0: one for each core that we may use, but one
    page_timeout: Positive = 60.0  # seconds
    memory_bytes: Count = 2 * 1024**3  # of its own, for one worker beyond what it starts with
    max_pages: Count = 20_000  # a document with more is quarantined
    max_pixels: Count = 400_000_000  # a raster image with more is quarantined before it is decoded
    recycle_after: Count = 5000  # pages one worker renders before it is replaced


class Engine(_Section, frozen=True):
    """`[engine]`: who reads the pages."""

    name: str = "auto"  # auto: vllm where a GPU and vllm are there, else cpu
    workers: Natural = 0  # cpu: processes, 0: one for each core
    model: str | None = None  # vllm: a profile of etc/models.toml, a folder or a Hugging Face id
    model_profile: str | None = None  # vllm: the profile for a folder or id that has none of its own
    gpu_profile: str | None = None  # vllm: a profile of etc/gpus.toml instead of the detected one
    profiles: str | None = None  # vllm: a file of your own model and GPU profiles, in the form of etc/models.toml
    tensor_parallel: Count = 1
    page_timeout: Positive = 300.0  # seconds in the engine before the page counts as hung


class Retry(_Section, frozen=True):
    """`[retry]`: pages and files that failed in a way that may pass."""

    attempts: Count = 3
    first_delay: Seconds = 2.0
    max_delay: Seconds = 60.0
    deaths: Count = 3  # a page or file in flight at this many process or engine deaths is quarantined


class Health(_Section, frozen=True):
    """`[health]`: when the daemon restarts itself (docs/recycling.md); a limit of 0 is off."""

    interval: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 60.0  # seconds between samples; calendars end
    fragmentation: Share = 0.15  # share of the engine's memory that even its largest need left unused
    alloc_retries: Natural = 5  # times within 30 samples that the allocator had to flush its cache to find room
    growth: Natural = 64 * 1024**2  # bytes for every 1,000 pages, host or GPU, sustained ...
    grown: Natural = 1024**3  # ... and this much in all, before growth counts as a leak
    slowdown: Ratio = 3.0  # times slower than early in this life, at a like load
    open_files: Share = 0.8  # share of the descriptors that the process may open
    samples: Count = 5  # samples in a row over a limit before it counts
    min_life: Seconds = 900.0  # a life is never recycled younger than this
    max_life: Seconds = 7 * 86400.0  # and always when it gets this old
    max_recycles: Count = 3  # within an hour; beyond that it stays up and complains

    @property
    def policy(self) -> Policy:
        return Policy(
            fragmentation=self.fragmentation,
            alloc_retries=self.alloc_retries,
            growth=self.growth,
            grown=self.grown,
            slowdown=self.slowdown,
            open_files=self.open_files,
            samples=self.samples,
            min_life_s=self.min_life,
            max_life_s=self.max_life,
            max_recycles=self.max_recycles,
        )


class Prune(_Section, frozen=True):
    """`[prune]`: what the ledger forgets by itself; 0 keeps for ever."""

    events_days: Days = 90
    samples_days: Days = 30


class Settings(_Section, frozen=True):
    """The whole configuration file."""

    state: str = str(DEFAULT_STATE)  # ledger, spool and lock; on a local disk
    inbox: tuple[Inbox, ...] = ()
    intake: Intake = Intake()
    render: Render = Render()
    engine: Engine = Engine()
    retry: Retry = Retry()
    health: Health = Health()
    prune: Prune = Prune()
    drain_timeout: Seconds = 30.0  # seconds that SIGTERM lets pages in flight finish
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def state_dir(self) -> Path:
        return Path(self.state)

    @property
    def ledger_path(self) -> Path:
        return self.state_dir / "ledger.sqlite"

    @property
    def spool_dir(self) -> Path:
        return self.state_dir / "spool"

    @property
    def render_workers(self) -> int:
        return self.render.workers or max(1, allowance.cores() - 1)


def load(path: Path) -> Settings:
    """Read and check a configuration file.

    Raises:
        ConfigError: it is missing, not TOML, or names an unknown, malformed or impossible setting.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no configuration {path}",
            f"Write one with: inboxd init --config {path} --inbox /path/to/folder",
        ) from error
    except OSError as error:
        raise ConfigError(
            f"cannot read the configuration {path}: {error.strerror}",
            "Run this as the daemon's user, or as root."
            if isinstance(error, PermissionError)
            else "Name the file itself: --config FILE.",
        ) from error
    return parse(raw, str(path))


def parse(raw: bytes, origin: str) -> Settings:
    """Check the text of a configuration file; `origin` names it in errors.

    Raises:
        ConfigError: as `load`.
    """
    try:
        # TOML is UTF-8, folder names need not be: a foreign byte travels as a surrogate, as in os.fsdecode.
        settings = msgspec.toml.decode(raw.decode("utf-8-sig", "surrogateescape"), type=Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{origin}: {error}", "See docs/configuration.md for every setting.") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f"{origin} is not valid TOML: {error}", "Mend the line that it names.") from error
    _check(settings, origin)
    return settings


def _check(settings: Settings, origin: str) -> None:
    """Refuse combinations that would feed outputs back in, lose files or watch the same folder twice."""

    def refuse(what: str, advice: str) -> None:
        raise ConfigError(f"{origin}: {what}", advice)

    def must_be_whole(setting: str, folder: str) -> None:
        if not Path(folder).is_absolute():
            refuse(f"{setting} = {folder!r} is not an absolute path", "Give the whole path, from /.")
        if "\0" in folder:
            refuse(f"{setting} = {folder!r} holds a NUL", "No path can: leave it out.")

    must_be_whole("state", settings.state)
    state = Path(os.path.normpath(settings.state))
    folders: list[Path] = []
    for inbox in settings.inbox:
        must_be_whole("inbox path", inbox.path)
        path = Path(os.path.normpath(inbox.path))
        for other in folders:
            if path == other or path.is_relative_to(other) or other.is_relative_to(path):
                refuse(
                    f"the inboxes {other} and {path} overlap",
                    "A file must belong to one inbox: separate them.",
                )
        folders.append(path)
        if state.is_relative_to(path) or path.is_relative_to(state):
            refuse(f"the inbox {path} and the state folder {state} overlap", "Keep the state folder apart.")
        if not inbox.outputs:
            refuse(f"the inbox {path} has outputs = []", 'Name at least one of "md", "json", "txt".')
        if (inbox.after == "archive") != (inbox.archive_dir is not None):
            refuse(
                f'the inbox {path} needs both after = "archive" and archive_dir, or neither',
                "Set the other one.",
            )
        for setting, folder in (("output_dir", inbox.output_dir), ("archive_dir", inbox.archive_dir)):
            if folder is not None:
                must_be_whole(setting, folder)
    for inbox in settings.inbox:
        for setting, folder in (("output_dir", inbox.output_dir), ("archive_dir", inbox.archive_dir)):
            target = Path(os.path.normpath(folder)) if folder is not None else None
            if target and any(target.is_relative_to(path) for path in folders):
                refuse(
                    f"{setting} = {folder!r} lies inside an inbox",
                    "What is written there would be taken as input.",
                )
