-- What was called, connected, trusted and answered: a chain in which each row seals all rows before it. All times are
-- milliseconds since 1970.
CREATE TABLE audit (
    seq INTEGER NOT NULL PRIMARY KEY CHECK (seq > 0), -- without gaps
    at INTEGER NOT NULL,
    body TEXT NOT NULL, -- JSON: what happened
    hash BLOB NOT NULL CHECK (length(hash) = 32), -- SHA-256 of the hash before, seq, at and body
    -- For looking things up. They cannot say anything but what the body says.
    kind TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.kind' END) VIRTUAL,
    server TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.server' END) VIRTUAL,
    tool TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.tool' END) VIRTUAL,
    decision TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.decision' END) VIRTUAL
) STRICT;

-- Where the chain ends: without it, nobody would miss the newest rows.
CREATE TABLE audit_head (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    kept_from INTEGER NOT NULL, -- rows before this one were forgotten, because they were old
    forgot_at INTEGER NOT NULL -- when it was looked for old rows last
) STRICT;

INSERT INTO audit_head (id, seq, hash, kept_from, forgot_at) VALUES (1, 0, zeroblob(32), 1, 0);

-- Mistakes are stopped here; whoever means it is found by the chain.
CREATE TRIGGER audit_rows_stay_as_they_are BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'rows of the audit log are never changed');
END;

CREATE TRIGGER audit_rows_stay BEFORE DELETE ON audit
WHEN OLD.seq >= (SELECT kept_from FROM audit_head)
BEGIN
    SELECT RAISE(ABORT, 'rows of the audit log are never deleted, unless they are old');
END;

PRAGMA user_version = 6;
