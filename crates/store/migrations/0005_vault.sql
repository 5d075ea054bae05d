-- What nobody may read without a key, which is kept elsewhere. Names are not sealed.
CREATE TABLE vault (
    space TEXT NOT NULL, -- 'secret': what a person set; 'token': what sign-in got
    name TEXT NOT NULL,
    key_id BLOB NOT NULL, -- which key sealed it; says nothing about the key
    nonce BLOB NOT NULL,
    sealed BLOB NOT NULL, -- XChaCha20-Poly1305; space, name and key_id are its associated data
    changed_at INTEGER NOT NULL, -- seconds since 1970
    PRIMARY KEY (space, name)
) STRICT, WITHOUT ROWID;

-- What makes a key of a passphrase; one row, made with the first passphrase.
CREATE TABLE vault_salt (
    only INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
    salt BLOB NOT NULL
) STRICT;

-- Who does something that only one process may do at a time.
CREATE TABLE leases (
    space TEXT NOT NULL,
    name TEXT NOT NULL,
    holder BLOB NOT NULL, -- a random number
    ends_at INTEGER NOT NULL, -- milliseconds since 1970
    PRIMARY KEY (space, name)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 5;
