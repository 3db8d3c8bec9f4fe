-- What is long in a source or a working context lies beside its record, so that the rest can be read without it.
-- deflated: content is a zlib stream of the text, else its UTF-8. spelled: media is base64 as it came, else the image.
CREATE TABLE body (
    slot     INTEGER PRIMARY KEY,
    content  BLOB NOT NULL,
    deflated INTEGER NOT NULL,
    mime     TEXT,
    media    BLOB,
    spelled  INTEGER
);

-- No earlier version wrote such records.
DELETE FROM memory WHERE kind IN (2, 3, 4);

-- The project of a working context, or of compilations that were counted.
ALTER TABLE memory ADD COLUMN project TEXT;
CREATE INDEX memory_project ON memory (project, kind) WHERE project IS NOT NULL;

-- What this store calls itself: counts of several stores stay apart when one imports another.
INSERT INTO meta VALUES ('store', lower(hex(randomblob(16))));
