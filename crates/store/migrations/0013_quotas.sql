-- What was used of quotas whose window is longer than a minute. A row is true at its time.
CREATE TABLE quota_uses (
    holder TEXT NOT NULL,
    quota TEXT NOT NULL,
    name TEXT,
    most INTEGER NOT NULL,
    used REAL NOT NULL,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (holder, quota)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 13;
