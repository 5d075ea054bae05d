-- The clients that registered at the front door of a team, and what people allowed them. All times are seconds since 1970.
-- All hashes are SHA-256 of random text, which is not kept.
CREATE TABLE team_clients (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL, -- what the client calls itself
    redirect_uris TEXT NOT NULL, -- JSON: an array of addresses
    made_at INTEGER NOT NULL,
    used_at INTEGER, -- when a person last allowed it something
    ends_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each consent: a code, and then one refresh token after the other.
CREATE TABLE team_grants (
    family TEXT NOT NULL PRIMARY KEY, -- that of its access tokens
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    client TEXT NOT NULL,
    client_name TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    challenge TEXT NOT NULL, -- PKCE, S256
    resource TEXT NOT NULL,
    scope TEXT NOT NULL,
    code BLOB NOT NULL UNIQUE CHECK (length(code) = 32), -- hash
    code_ends_at INTEGER NOT NULL,
    code_used_at INTEGER,
    handle BLOB UNIQUE CHECK (length(handle) = 32), -- hash of the part that all refresh tokens of the row share
    refresh BLOB CHECK (length(refresh) = 32), -- hash of the only refresh token that counts
    made_at INTEGER NOT NULL,
    renewed_at INTEGER,
    ends_at INTEGER NOT NULL,
    ends_for_good_at INTEGER NOT NULL, -- no renewal moves the end beyond this
    FOREIGN KEY (issuer, subject) REFERENCES team_members (issuer, subject) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX team_grants_of_a_member ON team_grants (issuer, subject);

-- What is revoked ends as a whole: a token with its grant, a grant with its tokens.
CREATE TRIGGER team_grant_removed AFTER DELETE ON team_grants
BEGIN
    DELETE FROM team_tokens WHERE family = OLD.family;
END;

CREATE TRIGGER team_token_of_a_grant_revoked AFTER DELETE ON team_tokens
WHEN OLD.family IS NOT NULL AND (OLD.ends_at IS NULL OR OLD.ends_at > CAST(strftime('%s', 'now') AS INTEGER))
BEGIN
    DELETE FROM team_grants WHERE family = OLD.family;
END;

UPDATE team_schema SET version = 2;
