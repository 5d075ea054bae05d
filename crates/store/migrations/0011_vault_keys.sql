-- Keys that another key took the place of. What one of them sealed was sealed anew in the transaction that wrote its row.
CREATE TABLE vault_retired (
    key_id BLOB NOT NULL PRIMARY KEY,
    successor BLOB NOT NULL, -- the id of the key that took its place
    retired_at INTEGER NOT NULL -- seconds since 1970
) STRICT, WITHOUT ROWID;

-- A process of an older version that still runs does not look there: it must not seal anything with such a key either.
CREATE TRIGGER vault_gets_no_row_of_a_retired_key BEFORE INSERT ON vault
WHEN EXISTS (SELECT 1 FROM vault_retired WHERE key_id = NEW.key_id)
BEGIN
    SELECT RAISE(ABORT, 'another key took the place of the one in use: start this program again');
END;

CREATE TRIGGER vault_keeps_no_row_of_a_retired_key BEFORE UPDATE OF key_id ON vault
WHEN EXISTS (SELECT 1 FROM vault_retired WHERE key_id = NEW.key_id)
BEGIN
    SELECT RAISE(ABORT, 'another key took the place of the one in use: start this program again');
END;

PRAGMA user_version = 11;
