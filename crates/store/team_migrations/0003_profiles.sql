-- A token for one profile opens its MCP endpoint alone.
ALTER TABLE team_tokens ADD COLUMN profile TEXT; -- NULL: what its purpose opens

UPDATE team_schema SET version = 3;
