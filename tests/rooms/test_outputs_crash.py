"""Killed between every two steps: final names only ever hold whole files, and a repeat mends the rest."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.rooms.outputs_stage import Stage

from inboxd.config import Inbox
from inboxd.core.naming import is_temporary
from inboxd.rooms.folders import Folder
from inboxd.rooms.outputs import Archived
from inboxd.rooms.placing import Draft, sweep

ROOT = Path(__file__).parents[2]
STAGE = Path(__file__).with_name("outputs_stage.py")
FINAL = ("scan.pdf.md", "scan.pdf.json")
CONTENT = b"%PDF a scan"


def points(*modules: str) -> list[str]:
    """Every fault point in these modules of the rooms, so that none is ever left out."""
    sources = (ROOT / "daemon" / "inboxd" / "rooms" / f"{module}.py" for module in modules)
    return [point for source in sources for point in re.findall(r'faults\.point\("([\w.]+)"\)', source.read_text())]


def act(stage: Stage, what: str, text: str, *flags: str, archive: Path | None = None, fault: str = "") -> int:
    command = [sys.executable, str(STAGE), str(stage.base), what, text, str(archive or ""), *flags]
    environment = {**os.environ, "INBOXD_FAULT": fault, "PYTHONPATH": str(ROOT / "daemon")}
    return subprocess.run(command, env=environment, timeout=60, check=False).returncode


def whole(stage: Stage, *texts: str) -> None:
    """What stands under a final name is whole, and says one of these."""
    for name in FINAL:
        file = stage.box / name
        if file.exists():
            said = file.read_text()
            assert (json.loads(said)["pages"][0]["text"] if name.endswith("json") else said.strip()) in texts


def finished(stage: Stage, text: str) -> None:
    """The next life ends with one right set of outputs and no litter."""
    memory = stage.base / "ledger.json"
    if memory.exists():
        stage.ours = {os.fsencode(path): hash for path, hash in json.loads(memory.read_text()).items()}
    stage.next_life()
    assert isinstance(stage.deliver(text), tuple)
    memory.write_text(json.dumps({os.fsdecode(path): hash for path, hash in stage.ours.items()}))
    assert stage.names() == set(FINAL)
    whole(stage, text)
    proof = json.loads(stage.text("scan.pdf.json"))
    assert proof["outputs"]["md"] == hashlib.sha256(stage.text("scan.pdf.md").encode()).hexdigest()
    assert stage.original.read_bytes() == CONTENT


DRAFT = ("placing.created", "placing.written", "placing.synced")
FIRST = [(f"{point}@{output}", "") for point in (*DRAFT, "placing.placed") for output in (1, 2)]
FIRST += [(f"placing.linked@{output}", "plain") for output in (1, 2)] + [(point, "") for point in points("outputs")]
NEXT = [f"{point}@{output}" for point in (*DRAFT, "placing.replaced") for output in (1, 2)] + points("outputs")


def test_the_cases_below_miss_no_point() -> None:
    tried = {fault.partition("@")[0] for fault in [*NEXT, *(fault for fault, _ in FIRST)]}
    after_a_kill = {"placing.swept"}  # tests/process/test_crash_matrix.py
    assert tried == set(points("placing", "outputs")) - after_a_kill


@pytest.mark.parametrize(("fault", "flag"), FIRST)
def test_killed_while_the_first_outputs_are_written(tmp_path: Path, fault: str, flag: str) -> None:
    stage = Stage(tmp_path).drop(CONTENT)
    assert act(stage, "deliver", "Right.", flag, fault=fault) == -9
    whole(stage, "Right.")
    finished(stage, "Right.")


@pytest.mark.parametrize("fault", NEXT)
def test_killed_while_a_new_version_replaces_an_old_one(tmp_path: Path, fault: str) -> None:
    stage = Stage(tmp_path).drop(CONTENT)
    finished(stage, "Old.")
    assert act(stage, "deliver", "New.", fault=fault) == -9
    whole(stage, "Old.", "New.")
    finished(stage, "New.")


@pytest.fixture(params=["same filesystem", "another filesystem"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    if request.param == "same filesystem":
        (tmp_path / "archive").mkdir()
        yield tmp_path / "archive"
        return
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("/dev/shm is no filesystem of its own here")
    folder = memory / f"inboxd-test-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    yield folder
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def test_killed_while_an_original_moves_to_the_archive(tmp_path: Path, archive: Path) -> None:
    met = set()
    for point in points("placing", "archiving"):
        (tmp_path / point).mkdir()
        stage = Stage(tmp_path / point).drop(CONTENT)
        if act(stage, "archive", "", archive=archive, fault=point) == -9:
            met.add(point)
        here, there = stage.original, archive / "scan.pdf"
        assert here.exists() or there.exists()
        for copy in (here, there):
            assert not copy.exists() or copy.read_bytes() == CONTENT
        stage.settings = Inbox(path=str(stage.box), after="archive", archive_dir=str(archive))
        assert isinstance(stage.archive(), Archived)
        assert os.listdir(archive) == ["scan.pdf"]
        assert there.read_bytes() == CONTENT
        assert not here.exists()
        there.unlink()
    copied = {*DRAFT, "placing.placed", "archiving.copied", "archiving.removed"}
    assert met == (copied if archive.stat().st_dev != tmp_path.stat().st_dev else {"archiving.renamed"})


def test_a_sweep_takes_old_temporaries_and_nothing_else(tmp_path: Path) -> None:
    stage = Stage(tmp_path).drop(CONTENT)
    assert act(stage, "deliver", "Right.", fault="placing.synced") == -9
    assert [is_temporary(os.fsencode(name)) for name in stage.names()] == [True]
    (stage.box / ".inboxd-0123456789abcdef.tmp").symlink_to(stage.original)
    (stage.box / ".inboxd-fedcba9876543210.tmp").mkdir()
    (stage.box / ".inboxd-marker").touch()
    with Folder.open(os.fsencode(stage.box)) as folder:
        assert sweep(folder) == 1
    assert stage.names() == {".inboxd-0123456789abcdef.tmp", ".inboxd-fedcba9876543210.tmp", ".inboxd-marker"}


def test_a_sweep_leaves_the_drafts_of_this_life_alone(tmp_path: Path) -> None:
    with Folder.open(os.fsencode(tmp_path)) as folder, Draft(folder) as draft:
        draft.write(b"half")
        assert sweep(folder) == 0
        draft.finish()
        draft.place(b"done")
    assert os.listdir(tmp_path) == ["done"]
