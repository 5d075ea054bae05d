-- Tools as they were when they were first seen, or as somebody approved them since; and those that are others now. All times
-- are seconds since 1970. A server is a name in a file: `source` is its path, or says what it is instead.
CREATE TABLE pinned_servers (
    source TEXT NOT NULL,
    server TEXT NOT NULL,
    generation INTEGER NOT NULL, -- grows with each change of its pins
    list BLOB CHECK (length(list) = 32), -- the list of tools in which nothing was found, with these pins
    PRIMARY KEY (source, server)
) STRICT, WITHOUT ROWID;

CREATE TABLE pins (
    source TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32), -- of the definition as it came
    definition TEXT NOT NULL, -- JSON, with secrets hidden
    renamed_to TEXT, -- the name under which somebody approved it since
    pinned_at INTEGER NOT NULL,
    approved_by TEXT, -- the way in which somebody approved it; nothing for what was seen first
    PRIMARY KEY (source, server, tool)
) STRICT, WITHOUT ROWID;

CREATE TABLE quarantine (
    source TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    definition TEXT NOT NULL,
    cause TEXT NOT NULL, -- changed, renamed, too_many
    was TEXT, -- the name of the tool that it was before
    since INTEGER NOT NULL,
    PRIMARY KEY (source, server, tool)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 7;
