-- The tools of servers that are started when they are needed, as they listed them last.
CREATE TABLE server_tools (
    fingerprint TEXT PRIMARY KEY, -- what decides which program answers
    tools BLOB NOT NULL,
    kept_at INTEGER NOT NULL -- seconds since 1970
) STRICT;

PRAGMA user_version = 4;
