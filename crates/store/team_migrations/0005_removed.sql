-- Members who were removed, or moved to another tenant, and whose values in the database of the tenant are still to be deleted.
CREATE TABLE team_removed (
    tenant TEXT NOT NULL,
    member TEXT NOT NULL, -- the key of the member
    PRIMARY KEY (tenant, member)
) STRICT, WITHOUT ROWID;

UPDATE team_schema SET version = 5;
