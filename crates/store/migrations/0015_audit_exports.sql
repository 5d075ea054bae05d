-- How far the audit log was written to places outside of this database. Times are milliseconds since 1970.
CREATE TABLE audit_exports (
    place TEXT NOT NULL PRIMARY KEY,
    head TEXT, -- the newest head that is there, as it was signed
    pending TEXT, -- the next one, of which not everything may be there yet
    seq INTEGER NOT NULL, -- the last row that `head` covers
    due_at INTEGER NOT NULL, -- until then, no process begins
    hold_until INTEGER NOT NULL -- until then, rows that are not there are kept
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 15;
