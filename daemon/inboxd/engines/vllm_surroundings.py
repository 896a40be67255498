"""What surrounds a vLLM process on this machine: its environment, its log, and the folder for its sockets."""

from __future__ import annotations

import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import structlog

from inboxd.errors import EngineUnusable

SOCKET_BYTES = 107
"""What Linux takes as the path of a Unix socket."""

NAME_BYTES = 36
"""vLLM names its sockets by UUIDs."""

START = "---- inboxd starts vLLM ----\n"
"""The line in the log from which a start speaks for itself."""

_ALLOCATOR = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}

logger = structlog.get_logger(__name__)


def environment(gpus: str | None, log: Path, sockets: Path | None) -> dict[str, str]:
    """What vLLM reads from its environment.

    `gpus` as CUDA_VISIBLE_DEVICES wants them, `log` as `open_log` left it, `sockets` as `empty_sockets` did.
    """
    ours = {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "VLLM_LOGGING_CONFIG_PATH": str(_logging(log)),
    }
    if sockets is not None:
        ours["VLLM_RPC_BASE_PATH"] = str(sockets)
    if find_spec("flashinfer") is None:  # else vLLM 0.26 dies for want of it
        ours["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    if gpus is not None:
        ours |= {"CUDA_VISIBLE_DEVICES": gpus, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        if "," not in gpus and not os.environ.keys() & _ALLOCATOR:
            # Keeps memory from breaking into pieces (docs/recycling.md); memory that GPUs share can't be had so.
            ours["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    return ours


def open_log(log: Path, *, keep: bool) -> None:
    """Have vLLM's processes write all to `log`, emptied first unless `keep`; errors to the daemon's stderr too.

    To be called before each start.

    Raises:
        EngineUnusable: the log or the logging configuration beside it can't be written.
    """
    handlers = {
        "file": {"class": "logging.FileHandler", "filename": str(log), "formatter": "plain", "level": "INFO"},
        "stderr": {"class": "logging.StreamHandler", "formatter": "plain", "level": "ERROR"},
    }
    configuration = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s [%(processName)s] %(message)s"}},
        "handlers": handlers,
        "loggers": {"vllm": {"handlers": [*handlers], "level": "INFO", "propagate": False}},
    }
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a" if keep else "w") as file:
            file.write(START)
        _logging(log).write_text(json.dumps(configuration))
    except OSError as error:
        raise EngineUnusable(
            f"vLLM's log cannot be kept: {error.filename or log}: {error.strerror}",
            "Give that file to the user that the daemon runs as, or remove it.",
        ) from error


def empty_sockets(log: Path) -> Path | None:
    """The folder beside `log` for vLLM's sockets, without those that a killed life left in it.

    None where their paths would be too long: vLLM then has them where temporary files go, and leaves them there.

    Raises:
        EngineUnusable: it can't be made.
    """
    folder = log.absolute().with_suffix(".sockets")
    if (longest := len(os.fsencode(folder)) + len("/") + NAME_BYTES) > SOCKET_BYTES:
        logger.warning(
            "vLLM leaves sockets where temporary files go: the state folder's path is too long for them",
            folder=str(folder),
            bytes=longest,
            most=SOCKET_BYTES,
        )
        return None
    shutil.rmtree(folder, ignore_errors=True)  # a killed life's processes may still be clearing up in it themselves
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise EngineUnusable(
            f"vLLM's sockets have no place: {error.filename or folder}: {error.strerror}",
            "Give that folder to the user that the daemon runs as, or remove it.",
        ) from error
    return folder


def _logging(log: Path) -> Path:
    return log.with_suffix(".logging.json")
