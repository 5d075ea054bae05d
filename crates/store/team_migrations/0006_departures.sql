-- A membership has a number: how many of the same person in the same tenant ended before. What a member gives belongs to
-- the membership, so that it can be deleted at any time after its end, and takes nothing of a later one with it.
ALTER TABLE team_members ADD COLUMN membership INTEGER NOT NULL DEFAULT 0;

-- The memberships that ended, because the member was removed or moved to another tenant.
CREATE TABLE team_departures (
    person TEXT NOT NULL, -- a hash of tenant, issuer and subject
    membership INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    is_forgotten INTEGER NOT NULL, -- whether the values in the database of the tenant have been deleted
    PRIMARY KEY (person, membership)
) STRICT, WITHOUT ROWID;

INSERT INTO team_departures (person, membership, tenant, is_forgotten) SELECT member, 0, tenant, 0 FROM team_removed;

DROP TABLE team_removed;

UPDATE team_schema SET version = 6;
