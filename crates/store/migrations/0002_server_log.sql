-- What servers wrote to stderr and to their log, and how their connections went.
CREATE TABLE server_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of arrival
    server TEXT NOT NULL,
    source TEXT NOT NULL, -- the file that the server is configured in; empty for one that is in no file
    at INTEGER NOT NULL, -- milliseconds since 1970
    kind TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;

CREATE INDEX server_log_by_server ON server_log (server, source, id);

PRAGMA user_version = 2;
