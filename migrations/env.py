"""Where Alembic starts: on the connection that inboxd hands over, or on `-x ledger=PATH` from the shell."""

from alembic import context
from alembic.util import CommandError
from sqlalchemy import Connection, create_engine

from inboxd.ledger.schema import metadata


def in_metadata(name: str | None, kind: str, *_: object) -> bool:
    """Whether autogenerate and check should look: not at the search index, whose tables SQLite makes."""
    return kind != "table" or not str(name).startswith("pages_fts")


def migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=True,  # SQLite alters a table by rebuilding it
        include_name=in_metadata,
    )
    with context.begin_transaction():
        context.run_migrations()


def main() -> None:
    connection = context.config.attributes.get("connection")
    if connection is not None:
        migrate(connection)
        return
    if context.is_offline_mode() or "ledger" not in (given := context.get_x_argument(as_dictionary=True)):
        raise CommandError("name a ledger: alembic -x ledger=/path/to/ledger.sqlite ...")
    engine = create_engine(f"sqlite:///{given['ledger']}")
    with engine.begin() as opened:
        migrate(opened)
    engine.dispose()


main()
