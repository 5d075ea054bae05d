-- The people and services of a team, the tokens that stand for them, and what they allowed clients. They are looked up before
-- a tenant is known, so all of these rows are of the tenant `*`. All times are seconds since 1970. All hashes are SHA-256 of
-- random text, which is not kept.
CREATE TABLE team_members (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant') CHECK (of_tenant = '*'),
    issuer text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    groups text NOT NULL, -- JSON: an array of names
    role text NOT NULL,
    changed_at bigint NOT NULL,
    role_is_given boolean NOT NULL DEFAULT FALSE,
    membership bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (of_tenant, issuer, subject)
);

CREATE TABLE team_tokens (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant') CHECK (of_tenant = '*'),
    hash bytea NOT NULL CHECK (length(hash) = 32),
    id text COLLATE "C" NOT NULL,
    issuer text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    purpose text NOT NULL,
    label text NOT NULL,
    client text,
    family text COLLATE "C",
    profile text,
    made_at bigint NOT NULL,
    ends_at bigint,
    PRIMARY KEY (of_tenant, hash),
    UNIQUE (of_tenant, id),
    FOREIGN KEY (of_tenant, issuer, subject) REFERENCES team_members (of_tenant, issuer, subject) ON DELETE CASCADE
);
CREATE INDEX team_tokens_of_a_member ON team_tokens (of_tenant, issuer, subject);
CREATE INDEX team_tokens_of_a_family ON team_tokens (of_tenant, family) WHERE family IS NOT NULL;

CREATE TABLE team_clients (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant') CHECK (of_tenant = '*'),
    id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    redirect_uris text NOT NULL, -- JSON: an array of addresses
    made_at bigint NOT NULL,
    used_at bigint,
    ends_at bigint NOT NULL,
    PRIMARY KEY (of_tenant, id)
);

CREATE TABLE team_grants (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant') CHECK (of_tenant = '*'),
    family text COLLATE "C" NOT NULL,
    issuer text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    client text COLLATE "C" NOT NULL,
    client_name text NOT NULL,
    redirect_uri text NOT NULL,
    challenge text NOT NULL,
    resource text NOT NULL,
    scope text NOT NULL,
    code bytea NOT NULL CHECK (length(code) = 32),
    code_ends_at bigint NOT NULL,
    code_used_at bigint,
    handle bytea CHECK (length(handle) = 32),
    refresh bytea CHECK (length(refresh) = 32),
    made_at bigint NOT NULL,
    renewed_at bigint,
    ends_at bigint NOT NULL,
    ends_for_good_at bigint NOT NULL,
    PRIMARY KEY (of_tenant, family),
    UNIQUE (of_tenant, code),
    UNIQUE (of_tenant, handle),
    FOREIGN KEY (of_tenant, issuer, subject) REFERENCES team_members (of_tenant, issuer, subject) ON DELETE CASCADE
);
CREATE INDEX team_grants_of_a_member ON team_grants (of_tenant, issuer, subject);

CREATE TABLE team_departures (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant') CHECK (of_tenant = '*'),
    person text COLLATE "C" NOT NULL,
    membership bigint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    is_forgotten boolean NOT NULL,
    PRIMARY KEY (of_tenant, person, membership)
);

-- Rises with each change after which a token may prove something else than before, or nothing.
CREATE TABLE team_version (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant') CHECK (of_tenant = '*'),
    id bigint NOT NULL CHECK (id = 1),
    version bigint NOT NULL,
    PRIMARY KEY (of_tenant, id)
);
INSERT INTO team_version (id, version) VALUES (1, 0);

CREATE FUNCTION team_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE team_version SET version = version + 1;
    RETURN NULL;
END
$$;
CREATE TRIGGER team_member_changed AFTER UPDATE OR DELETE ON team_members FOR EACH ROW EXECUTE FUNCTION team_changed();
CREATE TRIGGER team_token_changed AFTER UPDATE OR DELETE ON team_tokens FOR EACH ROW EXECUTE FUNCTION team_changed();

-- What is revoked ends as a whole: a token with its grant, a grant with its tokens.
CREATE FUNCTION team_grant_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM team_tokens WHERE family = OLD.family;
    RETURN NULL;
END
$$;
CREATE TRIGGER team_grant_removed AFTER DELETE ON team_grants FOR EACH ROW EXECUTE FUNCTION team_grant_removed();

CREATE FUNCTION team_token_of_a_grant_revoked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM team_grants WHERE family = OLD.family;
    RETURN NULL;
END
$$;
CREATE TRIGGER team_token_of_a_grant_revoked AFTER DELETE ON team_tokens FOR EACH ROW
    WHEN (OLD.family IS NOT NULL AND (OLD.ends_at IS NULL OR OLD.ends_at > extract(epoch FROM now())))
    EXECUTE FUNCTION team_token_of_a_grant_revoked();

DO $$
DECLARE
    of text;
BEGIN
    FOREACH of IN ARRAY ARRAY['team_members', 'team_tokens', 'team_clients', 'team_grants', 'team_departures', 'team_version']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', of);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', of);
        EXECUTE format('CREATE POLICY own_rows ON %I USING (of_tenant = nullif(current_setting(''toolrack.tenant'', '
            'true), ''''))', of);
    END LOOP;
END
$$;

UPDATE toolrack_schema SET version = 2, least = 2;
