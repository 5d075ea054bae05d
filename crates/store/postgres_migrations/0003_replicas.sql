-- The replicas that serve a team, and the one replica at which each tenant is served.
CREATE TABLE team_replicas (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant') CHECK (of_tenant = '*'),
    id text COLLATE "C" NOT NULL, -- random; a new one for each time that a replica joins
    address text NOT NULL, -- where its siblings reach it
    public_key bytea NOT NULL, -- with which it proves itself to them
    beats bigint NOT NULL, -- how many heartbeats it has written
    PRIMARY KEY (of_tenant, id)
);

-- A heartbeat writes no index, and most find room for the new row beside the old one.
ALTER TABLE team_replicas SET (fillfactor = 50);

CREATE TABLE team_homes (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant') CHECK (of_tenant = '*'),
    tenant text COLLATE "C" NOT NULL,
    replica text COLLATE "C", -- NULL: it was given up
    epoch bigint NOT NULL, -- how many times it was taken
    PRIMARY KEY (of_tenant, tenant)
);
CREATE INDEX team_homes_of_a_replica ON team_homes (of_tenant, replica) WHERE replica IS NOT NULL;

DO $$
DECLARE
    of text;
BEGIN
    FOREACH of IN ARRAY ARRAY['team_replicas', 'team_homes']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', of);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', of);
        EXECUTE format('CREATE POLICY own_rows ON %I USING (of_tenant = nullif(current_setting(''toolrack.tenant'', '
            'true), ''''))', of);
    END LOOP;
END
$$;

UPDATE toolrack_schema SET version = 3, least = 2;
