-- What people answered for good when they were asked whether a call may run: for one tool with the definition that it had
-- then, of what was configured under the server's name then.
CREATE TABLE answers (
    server TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    tool TEXT NOT NULL,
    definition BLOB NOT NULL,
    -- It was given for all that the server had.
    of_server INTEGER NOT NULL,
    -- How the call came in that was asked about.
    way TEXT NOT NULL,
    answered_at INTEGER NOT NULL,
    PRIMARY KEY (server, fingerprint, tool)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 8;
