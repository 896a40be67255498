"""A ledger opens whole, at the right schema, on a local disk, and otherwise says what to do."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateIndex, CreateTable

from inboxd.errors import LedgerBusy, LedgerError, LedgerLost
from inboxd.ledger import lock, opening, runs
from inboxd.ledger.form import SCHEMA
from inboxd.ledger.opening import Ledger
from inboxd.ledger.reading import Reader
from inboxd.ledger.schema import metadata
from inboxd.resources import folder


def test_a_new_ledger_is_made_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "state" / "deep" / "ledger.sqlite"
    with Ledger.open(path) as ledger:
        assert not ledger.write_now(runs.paused)
    with Reader(path) as reader:
        assert reader.version == SCHEMA
        assert reader.damage() == []


def test_an_existing_ledger_is_opened_again_without_loading_alembic(path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from inboxd.ledger.opening import Ledger;"
        "Ledger.open(Path(sys.argv[1])).close(); print('alembic' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_reading_does_not_load_sqlalchemy(path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from inboxd.ledger.reading import Reader;"
        "Reader(Path(sys.argv[1])).counts(); print([m for m in sys.modules if m in ('sqlalchemy', 'structlog')])"
    )
    run = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_what_keeps_it_whole(ledger: Ledger) -> None:
    def pragmas(connection: object) -> dict[str, object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        return {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names}  # type: ignore[attr-defined]

    assert ledger.write_now(pragmas) == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": opening.BUSY_MS,
    }


def test_every_table_is_strict(path: Path) -> None:
    with Reader(path) as reader:
        tables = list(
            reader.query("SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")[1]
        )
    ours = {name: strict for name, strict in tables if name in metadata.tables}
    assert set(ours) == set(metadata.tables) and set(ours.values()) == {1}


def test_it_must_be_there_unless_it_may_be_made(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger at"):
        Ledger.open(tmp_path / "ledger.sqlite", create=False)
    with pytest.raises(LedgerError, match="cannot be opened"):
        Reader(tmp_path / "ledger.sqlite")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------- migrations


def test_the_migrations_make_what_the_schema_says(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"include_name": lambda name, kind, _: kind != "table" or not name.startswith("pages_fts")}
        )
        assert compare_metadata(context, metadata) == []
    # Alembic sees neither checks nor the conditions of partial indexes: compare the statements themselves.
    wanted = {table.name: str(CreateTable(table).compile(engine)) for table in metadata.tables.values()}
    for table in metadata.tables.values():
        wanted |= {str(index.name): str(CreateIndex(index).compile(engine)) for index in table.indexes}
    with Reader(path) as reader:
        made = dict(reader.query("SELECT name, sql FROM sqlite_schema WHERE type IN ('table', 'index')")[1])
    for name, sql in wanted.items():
        assert _plain(str(made.get(name))) == _plain(sql)


def _plain(sql: str) -> str:
    return re.sub(r"\s+", " ", sql).replace("( ", "(").replace(" )", ")").strip()


def test_the_program_is_written_for_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(folder("migrations")))
    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA]


@pytest.mark.parametrize("command", [["check"], ["current"], ["upgrade", "head"]])
def test_alembic_from_the_shell(path: Path, command: list[str]) -> None:
    root = folder("migrations").parent
    run = subprocess.run(
        [sys.executable, "-m", "alembic", "-x", f"ledger={path}", *command],
        check=False,
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


def test_alembic_from_the_shell_wants_a_ledger() -> None:
    root = folder("migrations").parent
    run = subprocess.run(
        [sys.executable, "-m", "alembic", "upgrade", "head"], cwd=root, check=False, capture_output=True, text=True
    )
    assert run.returncode != 0 and "name a ledger" in run.stdout + run.stderr


# ------------------------------------------------------------------------------------------------- refusals


def test_a_newer_ledger_is_refused(path: Path) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.close()
    with pytest.raises(LedgerError, match=r"newer inboxd \(schema 9999") as caught:
        Ledger.open(path)
    assert "Install the newer inboxd" in caught.value.advice
    with pytest.raises(LedgerError, match="schema 9999"):
        Reader(path)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"%PDF-1.7 this is somebody's scan" * 100)
    before = path.read_bytes()
    for opens in (Ledger.open, Reader):
        with pytest.raises(LedgerError, match="is not a SQLite database"):
            opens(path)
    assert path.read_bytes() == before


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE contacts (name)")
    raw.close()
    before = path.read_bytes()
    for opens in (Ledger.open, Reader):
        with pytest.raises(LedgerError, match="another program's database"):
            opens(path)
    assert path.read_bytes() == before


def test_a_damaged_ledger_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * 4000 + whole[4100:])
    with pytest.raises(LedgerError, match="is damaged") as caught:
        Ledger.open(path)
    assert ".recover" in caught.value.advice


def test_damage_further_in_is_found_by_looking(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * 4096 + whole[12288:])
    with Reader(path) as reader:
        assert reader.damage() != []


@pytest.mark.parametrize("fstype", ["cifs", "nfs4", "fuse.sshfs", "9p", "virtiofs"])
def test_a_network_mount_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fstype: str) -> None:
    share = tmp_path / "share"
    share.mkdir()
    (tmp_path / "link").symlink_to(share)
    table = tmp_path / "mountinfo"
    table.write_text(f"22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 0:25 / {share} rw - {fstype} server:/x rw\n")
    monkeypatch.setattr(opening, "MOUNTINFO", table)
    for path in (share / "new" / "ledger.sqlite", tmp_path / "link" / "ledger.sqlite"):
        with pytest.raises(LedgerError, match=f"network mount \\({fstype}") as caught:
            Ledger.open(path)
        assert "local disk" in caught.value.advice
    assert list(share.iterdir()) == []
    Ledger.open(tmp_path / "ledger.sqlite").close()


@pytest.mark.skipif(not shutil.which("bindfs") or not Path("/dev/fuse").exists(), reason="needs bindfs and FUSE")
def test_a_real_fuse_mount_is_refused(tmp_path: Path) -> None:
    real, mount = tmp_path / "real", tmp_path / "mount"
    real.mkdir()
    mount.mkdir()
    if subprocess.run(["bindfs", real, mount], check=False, capture_output=True).returncode:
        pytest.skip("bindfs can't mount here")
    try:
        with pytest.raises(LedgerError, match="network mount"):
            Ledger.open(mount / "ledger.sqlite")
    finally:
        subprocess.run(["fusermount", "-u", mount], check=True)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.raises(LedgerError, match="cannot make the folder"):
        Ledger.open(in_the_way / "deep" / "ledger.sqlite")
    with pytest.raises(LedgerError):
        Ledger.open(in_the_way / "ledger.sqlite")
    (tmp_path / "ledger.sqlite").mkdir()
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger.open(tmp_path / "ledger.sqlite")


def test_closed_is_closed(path: Path) -> None:
    ledger = Ledger.open(path)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerLost, match="is closed"):
        ledger.write_now(runs.paused)
    assert sorted(path.parent.iterdir()) == [path]  # no -wal or -shm is left


# ------------------------------------------------------------------------------------------------------ lock


def test_one_daemon_owns_a_ledger(path: Path) -> None:
    holds = (
        "import sys; from pathlib import Path; from inboxd.ledger import lock\n"
        "with lock.own(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holds, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LedgerBusy, match=f"process {holder.pid}, since 20"), lock.own(path):
            pytest.fail("two daemons own one ledger")
        holder.kill()
    with lock.own(path):  # the kernel dropped it
        assert f"process {os.getpid()}," in path.with_name("ledger.sqlite.lock").read_text()
    with lock.own(path):
        pass


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot lock"), lock.own(tmp_path / "nowhere" / "ledger.sqlite"):
        pytest.fail("locked nothing")


def test_the_lock_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep me")
    (tmp_path / "ledger.sqlite.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(LedgerError), lock.own(tmp_path / "ledger.sqlite"):
        pytest.fail("locked through a link")
    assert (tmp_path / "precious").read_text() == "keep me"


def test_a_refused_file_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"no database" * 100)
    before = len(os.listdir("/proc/self/fd"))
    for opens in (Ledger.open, Reader):
        with pytest.raises(LedgerError):
            opens(path)
    assert len(os.listdir("/proc/self/fd")) == before
