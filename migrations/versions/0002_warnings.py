"""What the decoder said of a page is kept with it."""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE pages ADD COLUMN warnings TEXT")  # not by rebuilding: it holds every text
    op.execute("DROP VIEW v_pages")
    op.execute((Path(__file__).parents[1] / "sql" / "0002_v_pages.sql").read_text(encoding="utf-8"))


def downgrade() -> None:
    raise NotImplementedError("the copy that was made before the upgrade is beside the ledger")
