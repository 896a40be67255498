"""The first ledger: its tables, views and search index, as SQL in migrations/sql."""

import sqlite3
from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

APPLICATION_ID = 0x696E6278  # "inbx": tells a ledger from any other database


def upgrade() -> None:
    op.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for script in ("0001_tables.sql", "0001_search.sql", "0001_views.sql"):
        for statement in statements(Path(__file__).parents[1] / "sql" / script):
            op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    raise NotImplementedError("there is nothing before the first ledger: delete the file")


def statements(path: Path) -> list[str]:
    """The statements of an SQL script; `executescript` would commit the migration half-way."""
    found, statement = [], ""
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement.strip())
            statement = ""
    return found
