-- The replicas that serve a team, and the one replica at which each tenant is served.
CREATE TABLE team_replicas (
    id TEXT NOT NULL PRIMARY KEY, -- random; a new one for each time that a replica joins
    address TEXT NOT NULL, -- where its siblings reach it
    public_key BLOB NOT NULL, -- with which it proves itself to them
    beats INTEGER NOT NULL -- how many heartbeats it has written
) STRICT, WITHOUT ROWID;

CREATE TABLE team_homes (
    tenant TEXT NOT NULL PRIMARY KEY,
    replica TEXT, -- NULL: it was given up
    epoch INTEGER NOT NULL -- how many times it was taken
) STRICT, WITHOUT ROWID;

CREATE INDEX team_homes_of_a_replica ON team_homes (replica) WHERE replica IS NOT NULL;

UPDATE team_schema SET version = 7;
