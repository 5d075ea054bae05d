-- A migration that was released is never edited: its checksum is kept in every database that ran it.
-- Each one ends by raising user_version to its own number.

-- The era of MCP that worked last with a server. The fingerprint is of its command or URL.
CREATE TABLE servers (
    fingerprint TEXT NOT NULL PRIMARY KEY,
    era TEXT NOT NULL CHECK (era IN ('legacy', 'modern')),
    seen_at INTEGER NOT NULL -- seconds since 1970
) STRICT, WITHOUT ROWID;

CREATE INDEX servers_by_age ON servers (seen_at);

-- What a person agreed to run of what projects bring: one entry, with exactly this content.
CREATE TABLE approvals (
    project TEXT NOT NULL, -- absolute path of the folder
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    shown TEXT NOT NULL, -- what was shown to the person, without secrets
    approved_at INTEGER NOT NULL, -- seconds since 1970
    PRIMARY KEY (project, name)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 1;
