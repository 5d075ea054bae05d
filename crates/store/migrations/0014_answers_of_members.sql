-- An answer covers the calls of one principal, or those of all.
CREATE TABLE answers_of_members (
    server TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    tool TEXT NOT NULL,
    owner TEXT NOT NULL, -- the key of the principal; empty for the calls of all
    definition BLOB NOT NULL,
    -- The user allowed all tools that the server had then.
    of_server INTEGER NOT NULL,
    -- Where the call came from that the user was asked about.
    way TEXT NOT NULL,
    answered_at INTEGER NOT NULL, -- seconds since 1970
    owner_name TEXT,
    PRIMARY KEY (server, fingerprint, tool, owner)
) STRICT, WITHOUT ROWID;

INSERT INTO answers_of_members (server, fingerprint, tool, owner, definition, of_server, way, answered_at)
SELECT server, fingerprint, tool, '', definition, of_server, way, answered_at FROM answers;

DROP TABLE answers;
ALTER TABLE answers_of_members RENAME TO answers;

PRAGMA user_version = 14;
