-- How far the audit log of a tenant was written to places outside of this database. Times are milliseconds since 1970.
CREATE TABLE audit_exports (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    place text COLLATE "C" NOT NULL,
    head text, -- the newest head that is there, as it was signed
    pending text, -- the next one, of which not everything may be there yet
    seq bigint NOT NULL, -- the last row that `head` covers
    due_at bigint NOT NULL, -- until then, no process begins
    hold_until bigint NOT NULL, -- until then, rows that are not there are kept
    PRIMARY KEY (of_tenant, place)
);

ALTER TABLE audit_exports ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit_exports FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON audit_exports USING (of_tenant = nullif(current_setting('toolrack.tenant', true), ''));

UPDATE toolrack_schema SET version = 4, least = 3;
