-- Ids are unsigned 64-bit numbers, kept less 2^63 so that SQL orders them as unsigned numbers.
-- Slots are never used twice (AUTOINCREMENT), so that a vector code, once written for a slot, stays true.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value
) WITHOUT ROWID;

CREATE TABLE tally (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE memory (
    slot       INTEGER PRIMARY KEY AUTOINCREMENT,
    id         INTEGER NOT NULL UNIQUE,
    kind       INTEGER NOT NULL,
    content    TEXT NOT NULL,
    metadata   TEXT NOT NULL,
    dated      INTEGER NOT NULL,
    confidence REAL,
    successes  INTEGER NOT NULL DEFAULT 0,
    failures   INTEGER NOT NULL DEFAULT 0,
    expires_at INTEGER
);
CREATE INDEX memory_expiry ON memory (expires_at, kind) WHERE expires_at IS NOT NULL;
CREATE INDEX memory_internal ON memory (kind, id) WHERE kind <> 0;

-- One row for each top-level metadata field of a fact. The tag keeps JSON types apart.
CREATE TABLE facet (
    field TEXT NOT NULL,
    tag   TEXT NOT NULL,
    value NOT NULL,
    slot  INTEGER NOT NULL,
    PRIMARY KEY (field, tag, value, slot)
) WITHOUT ROWID;

-- Edges outlive the re-writing of a record, so they hold ids and not slots.
CREATE TABLE edge (
    ordinal  INTEGER PRIMARY KEY AUTOINCREMENT,
    id       INTEGER NOT NULL UNIQUE,
    src      INTEGER NOT NULL,
    dst      INTEGER NOT NULL,
    relation TEXT NOT NULL,
    stated   INTEGER NOT NULL
);
CREATE INDEX edge_src ON edge (src);
CREATE INDEX edge_dst ON edge (dst);

-- Which facts taught an edge or an attribute; forgetting a fact takes back what only it taught.
CREATE TABLE edge_source (
    fact INTEGER NOT NULL,
    edge INTEGER NOT NULL,
    PRIMARY KEY (fact, edge)
) WITHOUT ROWID;
CREATE INDEX edge_source_edge ON edge_source (edge);

-- Derived edges that a caller took away: their teachers do not bring them back. The ends are kept because forgetting the
-- teacher may leave them with nothing.
CREATE TABLE edge_refused (
    edge INTEGER NOT NULL,
    fact INTEGER NOT NULL,
    src  INTEGER NOT NULL,
    dst  INTEGER NOT NULL,
    PRIMARY KEY (edge, fact)
) WITHOUT ROWID;
CREATE INDEX edge_refused_fact ON edge_refused (fact);
CREATE INDEX edge_refused_src ON edge_refused (src);
CREATE INDEX edge_refused_dst ON edge_refused (dst);

CREATE TABLE attribute (
    ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
    hub     INTEGER NOT NULL,
    key     TEXT NOT NULL,
    fact    INTEGER,
    value   TEXT NOT NULL,
    UNIQUE (hub, key, fact)
);
CREATE INDEX attribute_fact ON attribute (fact);

-- Postings: for each term, runs of packed (slot u32, frequency u16, length u16), ascending by slot.
CREATE TABLE posting (
    term  TEXT NOT NULL,
    first INTEGER NOT NULL,
    size  INTEGER NOT NULL,
    data  BLOB NOT NULL,
    PRIMARY KEY (term, first)
) WITHOUT ROWID;

-- rows: how many the code files hold; dead: how many of them belong to no record; synced: how many survive a power loss
-- of the machine that last started as boot.
CREATE TABLE space (
    id         INTEGER PRIMARY KEY,
    model      TEXT NOT NULL,
    dimension  INTEGER NOT NULL,
    witness    BLOB,
    state      TEXT NOT NULL,
    seed       INTEGER NOT NULL,
    codes      TEXT NOT NULL,
    rows       INTEGER NOT NULL DEFAULT 0,
    dead       INTEGER NOT NULL DEFAULT 0,
    synced     INTEGER NOT NULL DEFAULT 0,
    boot       TEXT NOT NULL DEFAULT ''
);

-- key = space * 2^40 + slot: one b-tree, each space a run of it.
CREATE TABLE embedding (
    key    INTEGER PRIMARY KEY,
    vector BLOB NOT NULL
);

CREATE TABLE job (
    request_id  TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    extractor   TEXT NOT NULL,
    state       TEXT NOT NULL,
    accepted_at INTEGER NOT NULL,
    ended_at    INTEGER,
    attempts    INTEGER NOT NULL DEFAULT 0,
    worker      TEXT,
    leased_until INTEGER NOT NULL DEFAULT 0,
    body        BLOB NOT NULL,
    extraction  BLOB
);
CREATE INDEX job_pending ON job (accepted_at) WHERE ended_at IS NULL;
CREATE INDEX job_ended ON job (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE enrichment (
    ordinal      INTEGER PRIMARY KEY AUTOINCREMENT,
    fact         INTEGER NOT NULL UNIQUE,
    worker       TEXT,
    leased_until INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE migration (
    epoch  TEXT PRIMARY KEY,
    phase  TEXT NOT NULL,
    target INTEGER REFERENCES space (id),
    body   BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE dirty (
    ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
    epoch   TEXT NOT NULL,
    memory  INTEGER NOT NULL,
    kind    TEXT NOT NULL
);
