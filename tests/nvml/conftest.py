"""A machine with whatever NVIDIA GPUs a test describes: builds the stand-in NVML and runs programs against it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")


@dataclass(frozen=True)
class FakeNvml:
    """`facts` is the text file that the stand-in answers from; its format is explained in fake_nvml.c."""

    folder: Path
    facts: Path

    def is_a(self, *lines: str) -> None:
        """From now on the machine has these GPUs."""
        self.facts.write_text("".join(f"{line}\n" for line in lines))

    @property
    def environment(self) -> dict[str, str]:
        """Variables that make any program find the stand-in."""
        return {**os.environ, "LD_LIBRARY_PATH": str(self.folder), "FAKE_NVML": str(self.facts)}

    def python(self, program: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a Python program on that machine; a process of its own, for pynvml never lets a library go."""
        return subprocess.run(
            [sys.executable, "-c", program],
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def inboxd(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a verb of inboxd on that machine."""
        return self.python(f"import sys; from inboxd.cli import main; sys.exit(main({list(arguments)!r}))")


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> FakeNvml:
    """The stand-in, compiled; skips the test where there is no C compiler."""
    folder = tmp_path_factory.mktemp("nvml")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the stand-in NVML with")
    library = folder / "libnvidia-ml.so.1"
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1")
    subprocess.run([compiler, *flags, "-o", str(library), str(SOURCE)], check=True)
    return FakeNvml(folder, folder / "facts")
