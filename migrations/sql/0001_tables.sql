-- The tables of the ledger. docs/ledger.md says what each column means.

CREATE TABLE inboxes (
    id INTEGER NOT NULL,
    folder BLOB NOT NULL,
    path TEXT NOT NULL,
    priority INTEGER NOT NULL,
    watching TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    since TEXT NOT NULL,
    CONSTRAINT inboxes_key PRIMARY KEY (id),
    CONSTRAINT inboxes_folder UNIQUE (folder)
) STRICT;

CREATE TABLE runs (
    id INTEGER NOT NULL,
    version TEXT NOT NULL,
    pid INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    engine TEXT NOT NULL,
    model TEXT NOT NULL,
    engine_version TEXT DEFAULT '' NOT NULL,
    gpu TEXT NOT NULL,
    started TEXT NOT NULL,
    ended TEXT,
    exit_code INTEGER,
    reason TEXT DEFAULT '' NOT NULL,
    CONSTRAINT runs_key PRIMARY KEY (id)
) STRICT;

CREATE TABLE batches (
    id INTEGER NOT NULL,
    run INTEGER NOT NULL,
    engine TEXT NOT NULL,
    pages INTEGER NOT NULL,
    admitted TEXT NOT NULL,
    CONSTRAINT batches_key PRIMARY KEY (id),
    CONSTRAINT batches_run FOREIGN KEY(run) REFERENCES runs (id)
) STRICT;

CREATE TABLE files (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    inbox INTEGER NOT NULL,
    folder BLOB NOT NULL,
    name BLOB NOT NULL,
    path TEXT NOT NULL,
    current INTEGER NOT NULL CONSTRAINT files_current CHECK (current IN (0, 1)),
    state TEXT NOT NULL CONSTRAINT files_state CHECK (state IN ('settling', 'ready', 'reading', 'retrying', 'done', 'duplicate', 'quarantined', 'skipped', 'vanished')),
    reason TEXT DEFAULT '' NOT NULL,
    kind TEXT,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    sha256 TEXT,
    priority INTEGER NOT NULL,
    pages INTEGER,
    begun INTEGER DEFAULT 0 NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    deaths INTEGER DEFAULT 0 NOT NULL,
    run INTEGER,
    duplicate_of INTEGER,
    requeued INTEGER DEFAULT 0 NOT NULL CONSTRAINT files_requeued CHECK (requeued IN (0, 1)),
    delivery TEXT DEFAULT 'none' NOT NULL CONSTRAINT files_delivery CHECK (delivery IN ('none', 'owed', 'delivered')),
    delivery_reason TEXT DEFAULT '' NOT NULL,
    next_delivery_at TEXT,
    next_try_at TEXT,
    first_seen TEXT NOT NULL,
    settled TEXT,
    started TEXT,
    finished TEXT,
    CONSTRAINT files_inbox FOREIGN KEY(inbox) REFERENCES inboxes (id),
    CONSTRAINT files_run FOREIGN KEY(run) REFERENCES runs (id),
    CONSTRAINT files_duplicate_of FOREIGN KEY(duplicate_of) REFERENCES files (id)
) STRICT;

CREATE INDEX files_being_read ON files (id) WHERE state = 'reading' AND delivery = 'none';
CREATE INDEX files_counts ON files (inbox, state, pages, current) WHERE current = 1;
CREATE UNIQUE INDEX files_current ON files (inbox, folder, name) WHERE current = 1;
CREATE INDEX files_duplicates ON files (duplicate_of) WHERE duplicate_of IS NOT NULL;
CREATE INDEX files_earlier ON files (inbox, folder, name, id) WHERE current = 0;
CREATE INDEX files_moved ON files (inode, size, mtime_ns) WHERE current = 1 AND state IN ('settling', 'ready', 'reading', 'retrying', 'vanished');
CREATE INDEX files_open ON files (inbox, folder) WHERE current = 1 AND state IN ('settling', 'ready', 'reading', 'retrying');
CREATE INDEX files_original ON files (sha256, id) WHERE state IN ('done', 'ready', 'reading', 'retrying', 'quarantined');
CREATE INDEX files_owed ON files (next_delivery_at, id) WHERE delivery = 'owed';
CREATE INDEX files_ready ON files (priority DESC, id) WHERE state = 'ready';
CREATE INDEX files_ready_newest ON files (priority DESC, id DESC) WHERE state = 'ready';
CREATE INDEX files_retrying ON files (next_try_at) WHERE state = 'retrying';
CREATE INDEX files_state ON files (state, id) WHERE current = 1;

CREATE TABLE pages (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    file INTEGER NOT NULL,
    number INTEGER NOT NULL,
    state TEXT NOT NULL CONSTRAINT pages_state CHECK (state IN ('pending', 'in_flight', 'ok', 'blank', 'suspect', 'failed')),
    reason TEXT DEFAULT '' NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    deaths INTEGER DEFAULT 0 NOT NULL,
    at_risk INTEGER DEFAULT 0 NOT NULL,
    next_try_at TEXT,
    run INTEGER,
    batch INTEGER,
    engine TEXT,
    model TEXT,
    finish TEXT,
    confidence REAL,
    mean_logprob REAL,
    ink REAL,
    tokens_in INTEGER,
    tokens_out INTEGER,
    turned INTEGER,
    width INTEGER,
    height INTEGER,
    render_s REAL,
    queue_s REAL,
    first_token_s REAL,
    seconds REAL,
    claimed TEXT,
    finished TEXT,
    text TEXT DEFAULT '' NOT NULL,
    boxes TEXT,
    CONSTRAINT pages_file FOREIGN KEY(file) REFERENCES files (id) ON DELETE CASCADE,
    CONSTRAINT pages_run FOREIGN KEY(run) REFERENCES runs (id),
    CONSTRAINT pages_batch FOREIGN KEY(batch) REFERENCES batches (id)
) STRICT;

CREATE INDEX pages_alone ON pages (id) WHERE state = 'pending' AND deaths >= 2;
CREATE INDEX pages_doubtful ON pages (file) WHERE state IN ('suspect', 'failed');
CREATE INDEX pages_finished ON pages (finished, engine, state, tokens_in, tokens_out, seconds) WHERE finished IS NOT NULL;
CREATE INDEX pages_in_flight ON pages (file) WHERE state = 'in_flight';
CREATE UNIQUE INDEX pages_of_file ON pages (file, number);
CREATE INDEX pages_pending ON pages (file, number) WHERE state = 'pending';

CREATE TABLE outputs (
    id INTEGER NOT NULL,
    file INTEGER NOT NULL,
    folder BLOB NOT NULL,
    name BLOB NOT NULL,
    path TEXT NOT NULL,
    format TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    size INTEGER NOT NULL,
    written TEXT NOT NULL,
    CONSTRAINT outputs_key PRIMARY KEY (id),
    CONSTRAINT outputs_file FOREIGN KEY(file) REFERENCES files (id)
) STRICT;

CREATE INDEX outputs_content ON outputs (sha256);
CREATE UNIQUE INDEX outputs_here ON outputs (folder, name);
CREATE INDEX outputs_of_file ON outputs (file);

CREATE TABLE events (
    id INTEGER NOT NULL,
    at TEXT NOT NULL,
    event TEXT NOT NULL,
    detail TEXT DEFAULT '' NOT NULL,
    file INTEGER,
    page INTEGER,
    inbox INTEGER,
    run INTEGER,
    CONSTRAINT events_key PRIMARY KEY (id)
) STRICT;

CREATE INDEX events_of_file ON events (file) WHERE file IS NOT NULL;

CREATE TABLE memory_samples (
    id INTEGER NOT NULL,
    run INTEGER NOT NULL,
    at TEXT NOT NULL,
    host_rss INTEGER NOT NULL,
    gpu_total INTEGER,
    gpu_used INTEGER,
    gpu_reserved INTEGER,
    gpu_ours INTEGER,
    gpu_others INTEGER,
    torch_allocated INTEGER,
    torch_reserved INTEGER,
    torch_inactive_split INTEGER,
    torch_peak INTEGER,
    torch_largest_free INTEGER,
    torch_alloc_retries INTEGER,
    torch_ooms INTEGER,
    kv_used REAL,
    preemptions INTEGER,
    extra TEXT DEFAULT '{}' NOT NULL,
    CONSTRAINT memory_samples_key PRIMARY KEY (id),
    CONSTRAINT memory_samples_run FOREIGN KEY(run) REFERENCES runs (id)
) STRICT;

CREATE TABLE control (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    at TEXT NOT NULL,
    CONSTRAINT control_key PRIMARY KEY (name)
) STRICT;
