"""Brings a ledger to this program's schema in one transaction; refuses what is not ours, or newer than we are."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import Connection

from inboxd import faults
from inboxd.errors import LedgerError
from inboxd.ledger import backup
from inboxd.ledger.form import SCHEMA, schema_of
from inboxd.resources import folder


def migrate(connection: Connection, raw: sqlite3.Connection, path: Path) -> None:
    """Make or bring up to date the schema of the ledger that `connection`, over `raw`, is open on.

    A ledger that changes is copied first (`backup`), from within the transaction: nobody can write in between.

    Raises:
        LedgerError: the file belongs to another program, or to a newer inboxd; or the copy can't be made.
    """
    if schema_of(raw, path) == SCHEMA:
        return
    raw.execute("PRAGMA foreign_keys = OFF")  # a table is rebuilt by dropping it; this can't be set in a transaction
    transaction = connection.begin()  # or Alembic would begin, and commit, one of its own
    raw.execute("BEGIN IMMEDIATE")
    try:
        if (found := schema_of(raw, path)) != SCHEMA:  # nobody else came first
            _upgrade(connection, found, path)
            broken = raw.execute("PRAGMA foreign_key_check").fetchall()
            if broken:
                raise LedgerError(
                    f"the ledger {path} could not be brought to schema {SCHEMA}: rows lost what they refer to",
                    "Nothing was changed. Go back to the inboxd that wrote it, and report this.",
                )
        faults.point("migrating.upgraded")
        transaction.commit()
        faults.point("migrating.committed")
    finally:
        transaction.close()  # rolls back what was not committed
        raw.execute("PRAGMA foreign_keys = ON")


def _upgrade(connection: Connection, found: str | None, path: Path) -> None:
    from alembic import command  # only when there is something to do: it takes longer to load than to open a ledger
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(folder("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise LedgerError(
            f"the ledger {path} was written by a newer inboxd (schema {found}; this one knows up to {SCHEMA})",
            "Install the newer inboxd again, or set `state` in the configuration to another folder.",
        )
    if found is not None:
        try:
            backup.keep(path, found)
        except OSError as error:
            raise LedgerError(
                f"the ledger {path} can't be copied, which is done before its schema changes: {error.strerror}",
                f"Nothing was changed. Check that this user may write in {path.parent}, and that it has room.",
            ) from error
    command.upgrade(config, SCHEMA)
