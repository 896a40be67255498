"""What NVML says of this host's GPUs: frozen rows, free memory, and who holds the rest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from inboxd.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds memory of a GPU; `used` is None where the driver does not tell."""

    pid: int
    name: str
    used: int | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, or one MIG slice of it. Memory in bytes; `reserved` is the driver's own and a constant."""

    index: int
    uuid: str
    name: str
    capability: tuple[int, int]
    total: int
    free: int
    reserved: int
    mig: bool = False
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class Detected:
    """The GPUs that this process may use, and what is wrong with the others or with the driver, for a person.

    Where there is no GPU there is trouble that says why. `absent` is the trouble of those that we might have used.
    """

    gpus: tuple[Gpu, ...]
    driver: str = ""
    trouble: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def detect(visible: str | None = None) -> Detected:
    """Ask NVML. `visible` is what CUDA_VISIBLE_DEVICES says (default: the environment's), for NVML ignores it."""
    if visible is None:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    import pynvml as nvml

    try:
        with _open(nvml):
            driver = str(nvml.nvmlSystemGetDriverVersion())
            gpus, broken = _rows(nvml)
    except nvml.NVMLError as error:
        return Detected((), trouble=(f"no NVIDIA driver answers: {error}",))
    trouble = list(broken.values())
    if not gpus and not trouble:
        trouble.append("the NVIDIA driver knows of no GPU")
    chosen, absent = _visible(gpus, broken, visible)
    if gpus and not chosen:
        trouble.append("CUDA_VISIBLE_DEVICES hides every GPU that is there")
    return Detected(tuple(chosen), driver, tuple(trouble), tuple(absent))


def memory(uuid: str) -> Gpu | None:
    """That GPU now; None once the driver has lost it."""
    import pynvml as nvml

    try:
        with _open(nvml):
            return next((gpu for gpu in _rows(nvml)[0] if gpu.uuid == uuid), None)
    except nvml.NVMLError:
        return None


def groups(gpus: tuple[Gpu, ...], each: int) -> list[tuple[Gpu, ...]]:
    """The GPUs in groups of `each`, one group an engine.

    Raises:
        ConfigError: there are fewer GPUs than that, or some would be left over.
    """
    if each > len(gpus):
        raise ConfigError(
            f"engine.tensor_parallel = {each}, but this machine has {len(gpus)} usable GPU{'s'[: len(gpus) != 1]}",
            "Leave it at 1: a model of this size runs best as one engine for each GPU.",
        )
    if len(gpus) % each:
        raise ConfigError(
            f"engine.tensor_parallel = {each} does not divide this machine's {len(gpus)} GPUs",
            "Leave it at 1, or choose the GPUs with CUDA_VISIBLE_DEVICES.",
        )
    return [gpus[start : start + each] for start in range(0, len(gpus), each)]


@contextmanager
def _open(nvml: ModuleType) -> Iterator[None]:
    nvml.nvmlInit()
    try:
        yield
    finally:
        nvml.nvmlShutdown()


def _rows(nvml: ModuleType) -> tuple[list[Gpu], dict[int, str]]:
    """The GPUs that work, and what is wrong with each of the others, by its index."""
    gpus: list[Gpu] = []
    trouble: dict[int, str] = {}
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            slices = _slices(nvml, handle)
            if slices == []:
                trouble[index] = (
                    f"GPU {index}: it is in MIG mode and has no slice: make some (nvidia-smi mig), or end the mode"
                )
                continue
            gpus += [_row(nvml, index, each, mig=slices is not None) for each in slices or [handle]]
        except nvml.NVMLError as error:
            trouble[index] = f"GPU {index}: {error}"
    return gpus, trouble


def _slices(nvml: ModuleType, handle: Any) -> list[Any] | None:
    """Handles of a GPU's MIG slices: in that mode CUDA sees only them, and after a reboot there are none.

    None where the GPU is not in that mode.
    """
    try:
        if nvml.nvmlDeviceGetMigMode(handle)[0] != nvml.NVML_DEVICE_MIG_ENABLE:
            return None
    except nvml.NVMLError:  # most cards have no MIG
        return None
    found = []
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            found.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number))
        except nvml.NVMLError:  # an unused place
            continue
    return found


def _row(nvml: ModuleType, index: int, handle: Any, *, mig: bool) -> Gpu:
    parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle) if mig else handle
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        reserved = int(memory.reserved)
    except nvml.NVMLError_FunctionNotFound:  # drivers before 510
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        reserved = 0
    return Gpu(
        index=index,
        uuid=str(nvml.nvmlDeviceGetUUID(handle)),
        name=str(nvml.nvmlDeviceGetName(handle)),
        capability=tuple(nvml.nvmlDeviceGetCudaComputeCapability(parent)),
        total=int(memory.total),
        free=int(memory.free),
        reserved=reserved,
        mig=mig,
        holders=_holders(nvml, handle),
    )


def _holders(nvml: ModuleType, handle: Any) -> tuple[Holder, ...]:
    try:
        running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except nvml.NVMLError:  # not told inside some containers
        return ()
    rows = (Holder(process.pid, _process_name(process.pid), process.usedGpuMemory) for process in running)
    return tuple(sorted(rows, key=lambda holder: -(holder.used or 0)))


def _process_name(pid: int) -> str:
    try:
        # The kernel keeps 15 bytes of a name, which may end within a character.
        return Path(f"/proc/{pid}/comm").read_bytes().decode("utf-8", "replace").strip()
    except OSError:  # of another container, or gone
        return "a process outside this container"


def _visible(gpus: list[Gpu], broken: dict[int, str], visible: str | None) -> tuple[list[Gpu], list[str]]:
    """The GPUs that CUDA_VISIBLE_DEVICES names, in its order, and the trouble of broken ones that it may name."""
    if visible is None:
        return gpus, list(broken.values())
    chosen: list[Gpu] = []
    absent: list[str] = []
    for word in filter(None, (word.strip() for word in visible.split(","))):
        if word.isdecimal():
            found = [gpu for gpu in gpus if gpu.index == int(word)]
            lost = [text for index, text in broken.items() if index == int(word)]
        else:
            found = [gpu for gpu in gpus if gpu.uuid.startswith(word)]
            lost = [] if found else list(broken.values())  # whose ids the driver can't tell
        if not found and not lost:  # CUDA too stops at the first that does not exist
            break
        chosen += found
        absent += (text for text in lost if text not in absent)
    return chosen, absent
