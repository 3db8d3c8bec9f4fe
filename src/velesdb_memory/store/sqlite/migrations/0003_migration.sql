-- The one migration that is remembered. journal_max (changes) stands beside the body because every write looks at it.
DROP TABLE migration;
CREATE TABLE migration (
    epoch       TEXT PRIMARY KEY,
    phase       TEXT NOT NULL,
    target      INTEGER,
    journal_max INTEGER NOT NULL,
    body        BLOB NOT NULL
) WITHOUT ROWID;

-- What was changed while a migration captures: kind 0 a fact, 1 the source of an edge.
DROP TABLE dirty;
CREATE TABLE dirty (
    ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
    kind    INTEGER NOT NULL,
    memory  INTEGER NOT NULL
);
