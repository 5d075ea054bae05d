-- A role that an administrator of the tenant gave stays when the member signs in again.
ALTER TABLE team_members ADD COLUMN role_is_given INTEGER NOT NULL DEFAULT 0;

UPDATE team_schema SET version = 4;
