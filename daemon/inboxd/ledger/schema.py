"""The tables of the ledger, for building statements; migrations/ makes them, and its views and search index.

Times are text, UTC, `YYYY-MM-DD HH:MM:SS.mmm`. Paths are kept twice: as the bytes that the filesystem knows
(`folder`, `name`) and as one line that a person can read (`path`).
"""

from __future__ import annotations

from sqlalchemy import BLOB, INTEGER, REAL, TEXT, CheckConstraint, Column, ForeignKey, Index, MetaData, Table, text

from inboxd.core.lifecycle import FileState
from inboxd.ledger import conditions as when
from inboxd.ledger.conditions import Delivery, one_of
from inboxd.model import PageState

metadata = MetaData(
    naming_convention={
        "ck": "%(table_name)s_%(constraint_name)s",
        "fk": "%(table_name)s_%(column_0_name)s",
        "uq": "%(table_name)s_%(column_0_N_name)s",
        "pk": "%(table_name)s_key",
    }
)


inboxes = Table(
    "inboxes",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("folder", BLOB, nullable=False, unique=True),  # absolute
    Column("path", TEXT, nullable=False),
    Column("priority", INTEGER, nullable=False),
    Column("watching", TEXT, nullable=False),
    Column("state", TEXT, nullable=False),
    Column("reason", TEXT, nullable=False),
    Column("since", TEXT, nullable=False),
    sqlite_strict=True,
)

files = Table(
    "files",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("inbox", INTEGER, ForeignKey("inboxes.id"), nullable=False),
    Column("folder", BLOB, nullable=False),  # below the inbox, "" for the inbox itself
    Column("name", BLOB, nullable=False),
    Column("path", TEXT, nullable=False),  # absolute
    Column("current", INTEGER, CheckConstraint("current IN (0, 1)", "current"), nullable=False),
    Column("state", TEXT, CheckConstraint(f"state IN {one_of(*FileState)}", "state"), nullable=False),
    Column("reason", TEXT, nullable=False, server_default=""),
    Column("kind", TEXT),
    Column("size", INTEGER, nullable=False),
    Column("mtime_ns", INTEGER, nullable=False),
    Column("ctime_ns", INTEGER, nullable=False),
    Column("inode", INTEGER, nullable=False),
    Column("sha256", TEXT),
    Column("priority", INTEGER, nullable=False),
    Column("pages", INTEGER),
    Column("begun", INTEGER, nullable=False, server_default=text("0")),  # pages claimed so far: the fewest goes first
    Column("attempts", INTEGER, nullable=False, server_default=text("0")),
    Column("deaths", INTEGER, nullable=False, server_default=text("0")),
    Column("run", INTEGER, ForeignKey("runs.id")),  # that claimed it last
    Column("duplicate_of", INTEGER, ForeignKey("files.id")),
    Column(
        "requeued", INTEGER, CheckConstraint("requeued IN (0, 1)", "requeued"), nullable=False, server_default=text("0")
    ),
    Column(
        "delivery",
        TEXT,
        CheckConstraint(f"delivery IN {one_of(*Delivery)}", "delivery"),
        nullable=False,
        server_default=Delivery.NONE,
    ),
    Column("delivery_reason", TEXT, nullable=False, server_default=""),  # why the last try to write outputs failed
    Column("next_delivery_at", TEXT),
    Column("next_try_at", TEXT),
    Column("first_seen", TEXT, nullable=False),
    Column("settled", TEXT),
    Column("started", TEXT),
    Column("finished", TEXT),
    sqlite_strict=True,
    sqlite_autoincrement=True,  # an id that was given out is never another file's
)

Index("files_current", files.c.inbox, files.c.folder, files.c.name, unique=True, sqlite_where=text(when.CURRENT))
Index("files_earlier", files.c.inbox, files.c.folder, files.c.name, files.c.id, sqlite_where=text(when.EARLIER))
# For people. Partial, so that SQLite does not prefer it to the indexes below: those stay small.
Index("files_state", files.c.state, files.c.id, sqlite_where=text(when.CURRENT))
Index("files_counts", files.c.inbox, files.c.state, files.c.pages, files.c.current, sqlite_where=text(when.CURRENT))
Index("files_ready", files.c.priority.desc(), files.c.id, sqlite_where=text(when.READY))
Index("files_ready_newest", files.c.priority.desc(), files.c.id.desc(), sqlite_where=text(when.READY))
Index("files_retrying", files.c.next_try_at, sqlite_where=text(when.RETRYING))
Index("files_being_read", files.c.id, sqlite_where=text(when.BEING_READ))
Index("files_owed", files.c.next_delivery_at, files.c.id, sqlite_where=text(when.OWED))
Index("files_original", files.c.sha256, files.c.id, sqlite_where=text(when.ORIGINAL))
Index("files_duplicates", files.c.duplicate_of, sqlite_where=text(when.DUPLICATE))
Index("files_moved", files.c.inode, files.c.size, files.c.mtime_ns, sqlite_where=text(when.MAY_HAVE_MOVED))
Index("files_open", files.c.inbox, files.c.folder, sqlite_where=text(when.OPEN))

pages = Table(
    "pages",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("file", INTEGER, ForeignKey("files.id", ondelete="CASCADE"), nullable=False),
    Column("number", INTEGER, nullable=False),  # from 1
    Column("state", TEXT, CheckConstraint(f"state IN {one_of(*PageState)}", "state"), nullable=False),
    Column("reason", TEXT, nullable=False, server_default=""),
    Column("attempts", INTEGER, nullable=False, server_default=text("0")),
    Column("deaths", INTEGER, nullable=False, server_default=text("0")),
    Column("at_risk", INTEGER, nullable=False, server_default=text("0")),  # in an engine that shares our process
    Column("next_try_at", TEXT),
    Column("run", INTEGER, ForeignKey("runs.id")),
    Column("batch", INTEGER, ForeignKey("batches.id")),
    Column("engine", TEXT),
    Column("model", TEXT),
    Column("finish", TEXT),
    Column("confidence", REAL),
    Column("mean_logprob", REAL),
    Column("ink", REAL),
    Column("tokens_in", INTEGER),
    Column("tokens_out", INTEGER),
    Column("turned", INTEGER),
    Column("width", INTEGER),
    Column("height", INTEGER),
    Column("render_s", REAL),
    Column("queue_s", REAL),
    Column("first_token_s", REAL),
    Column("seconds", REAL),  # render and read
    Column("claimed", TEXT),
    Column("finished", TEXT),
    # Long values last: SQLite reads a row's overflow only as far as it must.
    Column("text", TEXT, nullable=False, server_default=""),
    Column("boxes", TEXT),  # JSON: [[text, confidence, x0, y0, x1, y1], …]
    Column("warnings", TEXT),  # JSON: what the decoder said, a text each; NULL where it said nothing
    sqlite_strict=True,
    sqlite_autoincrement=True,
)
Index("pages_of_file", pages.c.file, pages.c.number, unique=True)
Index("pages_pending", pages.c.file, pages.c.number, sqlite_where=text(when.PENDING))
Index("pages_in_flight", pages.c.file, sqlite_where=text(when.IN_FLIGHT))
Index("pages_alone", pages.c.id, sqlite_where=text(when.ALONE))
Index("pages_doubtful", pages.c.file, sqlite_where=text(when.DOUBTFUL))
Index(
    "pages_finished",
    pages.c.finished,
    pages.c.engine,
    pages.c.state,
    pages.c.tokens_in,
    pages.c.tokens_out,
    pages.c.seconds,
    sqlite_where=text(when.FINISHED),
)

batches = Table(
    "batches",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("run", INTEGER, ForeignKey("runs.id"), nullable=False),
    Column("engine", TEXT, nullable=False),
    Column("pages", INTEGER, nullable=False),
    Column("admitted", TEXT, nullable=False),
    sqlite_strict=True,
)

outputs = Table(
    "outputs",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("file", INTEGER, ForeignKey("files.id"), nullable=False),
    Column("folder", BLOB, nullable=False),  # absolute
    Column("name", BLOB, nullable=False),
    Column("path", TEXT, nullable=False),
    Column("format", TEXT, nullable=False),
    Column("sha256", TEXT, nullable=False),
    Column("size", INTEGER, nullable=False),
    Column("written", TEXT, nullable=False),
    sqlite_strict=True,
)
Index("outputs_here", outputs.c.folder, outputs.c.name, unique=True)
Index("outputs_of_file", outputs.c.file)
Index("outputs_content", outputs.c.sha256)

events = Table(
    "events",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("at", TEXT, nullable=False),
    Column("event", TEXT, nullable=False),
    Column("detail", TEXT, nullable=False, server_default=""),
    Column("file", INTEGER),  # history outlives what it tells of: no foreign keys
    Column("page", INTEGER),  # its number
    Column("inbox", INTEGER),
    Column("run", INTEGER),
    sqlite_strict=True,
)
Index("events_of_file", events.c.file, sqlite_where=text(when.OF_A_FILE))

runs = Table(
    "runs",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("version", TEXT, nullable=False),
    Column("pid", INTEGER, nullable=False),
    Column("boot_id", TEXT, nullable=False),
    Column("engine", TEXT, nullable=False),
    Column("model", TEXT, nullable=False),
    Column("engine_version", TEXT, nullable=False, server_default=""),
    Column("gpu", TEXT, nullable=False),
    Column("started", TEXT, nullable=False),
    Column("ended", TEXT),
    Column("exit_code", INTEGER),
    Column("reason", TEXT, nullable=False, server_default=""),
    sqlite_strict=True,
)

memory_samples = Table(
    "memory_samples",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("run", INTEGER, ForeignKey("runs.id"), nullable=False),
    Column("at", TEXT, nullable=False),
    # As model.MemorySample: bytes, counts, and a share for kv_used.
    Column("host_rss", INTEGER, nullable=False),
    Column("gpu_total", INTEGER),
    Column("gpu_used", INTEGER),
    Column("gpu_reserved", INTEGER),
    Column("gpu_ours", INTEGER),
    Column("gpu_others", INTEGER),
    Column("torch_allocated", INTEGER),
    Column("torch_reserved", INTEGER),
    Column("torch_inactive_split", INTEGER),
    Column("torch_peak", INTEGER),
    Column("torch_largest_free", INTEGER),  # never filled: no verdict wants it, and to drop it takes a migration
    Column("torch_alloc_retries", INTEGER),
    Column("torch_ooms", INTEGER),
    Column("kv_used", REAL),
    Column("preemptions", INTEGER),
    Column("extra", TEXT, nullable=False, server_default="{}"),  # JSON: whatever else was measured
    sqlite_strict=True,
)

control = Table(
    "control",
    metadata,
    Column("name", TEXT, primary_key=True, nullable=False),
    Column("value", TEXT, nullable=False),
    Column("at", TEXT, nullable=False),
    sqlite_strict=True,
)
"""What people ask of a running daemon from another process."""
