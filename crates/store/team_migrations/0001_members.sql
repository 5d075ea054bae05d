-- The people and services of a team, and the tokens that stand for them. All times are seconds since 1970.
CREATE TABLE team_members (
    issuer TEXT NOT NULL, -- who vouches for the subject
    subject TEXT NOT NULL,
    kind TEXT NOT NULL, -- person, service
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    groups TEXT NOT NULL, -- JSON: an array of names
    role TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;

CREATE TABLE team_tokens (
    hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32), -- SHA-256 of the token, which is random; the token is not kept
    id TEXT NOT NULL UNIQUE, -- names the token, and opens nothing
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    purpose TEXT NOT NULL, -- personal, access, browser
    label TEXT NOT NULL, -- for people
    client TEXT, -- the OAuth client that has it
    family TEXT, -- tokens that end together, as those of one consent do
    made_at INTEGER NOT NULL,
    ends_at INTEGER,
    FOREIGN KEY (issuer, subject) REFERENCES team_members (issuer, subject) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX team_tokens_of_a_member ON team_tokens (issuer, subject);
CREATE INDEX team_tokens_of_a_family ON team_tokens (family) WHERE family IS NOT NULL;

-- Rises with each change after which a token may prove something else than before, or nothing.
CREATE TABLE team_version (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL
) STRICT;

INSERT INTO team_version (id, version) VALUES (1, 0);

CREATE TRIGGER team_member_changed AFTER UPDATE ON team_members
BEGIN
    UPDATE team_version SET version = version + 1;
END;

CREATE TRIGGER team_member_removed AFTER DELETE ON team_members
BEGIN
    UPDATE team_version SET version = version + 1;
END;

CREATE TRIGGER team_token_changed AFTER UPDATE ON team_tokens
BEGIN
    UPDATE team_version SET version = version + 1;
END;

CREATE TRIGGER team_token_removed AFTER DELETE ON team_tokens
BEGIN
    UPDATE team_version SET version = version + 1;
END;

-- The number of the last script that ran.
CREATE TABLE team_schema (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL
) STRICT;

INSERT INTO team_schema (id, version) VALUES (1, 1);
