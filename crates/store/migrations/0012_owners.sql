-- Whose conversation it is: the key of a member of a tenant, and what the member was called then. Without a key, it is that of
-- the user of the machine.
ALTER TABLE sessions ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN owner_name TEXT;
CREATE INDEX sessions_of_an_owner ON sessions (owner, updated_at, id) WHERE owner <> '';

PRAGMA user_version = 12;
