-- What people do not want to run of what projects bring, as long as its content has this hash.
CREATE TABLE refusals (
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    refused_at INTEGER NOT NULL,
    PRIMARY KEY (project, name)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 10;
