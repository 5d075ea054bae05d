-- A migration that was released is never edited. Each one ends by writing its number, and the number of the oldest one
-- whose programs still work with it: old and new programs share a database while one takes the place of the other.
--
-- It runs as the tenant `*`. One that changes rows of all tenants takes FORCE ROW LEVEL SECURITY from the table first, and
-- gives it back at its end.

CREATE TABLE toolrack_schema (
    id bigint PRIMARY KEY CHECK (id = 1),
    version bigint NOT NULL,
    least bigint NOT NULL
);

-- The era of MCP that worked last with a server. The fingerprint is of its command or URL.
CREATE TABLE servers (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    fingerprint text COLLATE "C" NOT NULL,
    era text NOT NULL CHECK (era IN ('legacy', 'modern')),
    seen_at bigint NOT NULL, -- seconds since 1970
    PRIMARY KEY (of_tenant, fingerprint)
);
CREATE INDEX servers_by_age ON servers (of_tenant, seen_at);

-- The tools of servers that are started when they are needed, as they listed them last.
CREATE TABLE server_tools (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    fingerprint text COLLATE "C" NOT NULL,
    tools bytea NOT NULL,
    kept_at bigint NOT NULL,
    PRIMARY KEY (of_tenant, fingerprint)
);

-- What a user agreed to run of what projects bring: one entry, with exactly this content.
CREATE TABLE approvals (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    project text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    hash text NOT NULL,
    shown text NOT NULL,
    approved_at bigint NOT NULL,
    PRIMARY KEY (of_tenant, project, name)
);

CREATE TABLE refusals (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    project text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    hash text NOT NULL,
    refused_at bigint NOT NULL,
    PRIMARY KEY (of_tenant, project, name)
);

CREATE TABLE answers (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    server text COLLATE "C" NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL, -- the key of the principal; empty for the calls of all
    definition bytea NOT NULL,
    of_server boolean NOT NULL,
    way text NOT NULL,
    answered_at bigint NOT NULL,
    owner_name text,
    PRIMARY KEY (of_tenant, server, fingerprint, tool, owner)
);

-- What servers wrote to stderr and to their log, and how their connections went.
CREATE TABLE server_log (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    id bigint GENERATED ALWAYS AS IDENTITY, -- the order of arrival
    server text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    kind text NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (of_tenant, id)
);
CREATE INDEX server_log_by_server ON server_log (of_tenant, server, source, id);

-- Conversations with models. All times of these tables are milliseconds since 1970.
CREATE TABLE sessions (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    id text COLLATE "C" NOT NULL,
    title text COLLATE "C" NOT NULL,
    model text,
    agent text,
    owner text COLLATE "C" NOT NULL DEFAULT '',
    owner_name text,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    input bigint NOT NULL DEFAULT 0,
    output bigint NOT NULL DEFAULT 0,
    cached_read bigint NOT NULL DEFAULT 0,
    cache_write bigint NOT NULL DEFAULT 0,
    reasoning bigint NOT NULL DEFAULT 0,
    cost bigint,
    open_turn text,
    PRIMARY KEY (of_tenant, id)
);
CREATE INDEX sessions_by_age ON sessions (of_tenant, updated_at, id);
CREATE INDEX sessions_of_an_owner ON sessions (of_tenant, owner, updated_at, id) WHERE owner <> '';

CREATE TABLE messages (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    role text NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
    content text NOT NULL,
    tool_calls text,
    tool_results text,
    timestamp bigint NOT NULL,
    position bigint NOT NULL CHECK (position >= 0),
    body text,
    input bigint,
    output bigint,
    cached_read bigint,
    cache_write bigint,
    reasoning bigint,
    cost bigint,
    PRIMARY KEY (of_tenant, id),
    UNIQUE (of_tenant, session_id, position),
    FOREIGN KEY (of_tenant, session_id) REFERENCES sessions (of_tenant, id) ON DELETE CASCADE
);

CREATE TABLE chores (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    name text COLLATE "C" NOT NULL,
    done_at bigint NOT NULL,
    PRIMARY KEY (of_tenant, name)
);

-- What is sealed with a key that is kept elsewhere. Names are not sealed.
CREATE TABLE vault (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    space text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    key_id bytea NOT NULL,
    nonce bytea NOT NULL,
    sealed bytea NOT NULL,
    changed_at bigint NOT NULL,
    PRIMARY KEY (of_tenant, space, name)
);

CREATE TABLE vault_salt (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    "only" bigint NOT NULL CHECK ("only" = 1),
    salt bytea NOT NULL,
    PRIMARY KEY (of_tenant, "only")
);

CREATE TABLE vault_retired (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    key_id bytea NOT NULL,
    successor bytea NOT NULL,
    retired_at bigint NOT NULL,
    PRIMARY KEY (of_tenant, key_id)
);

CREATE FUNCTION vault_keeps_no_row_of_a_retired_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM vault_retired WHERE of_tenant = NEW.of_tenant AND key_id = NEW.key_id) THEN
        RAISE EXCEPTION 'another key took the place of the one in use: start this program again';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER vault_keeps_no_row_of_a_retired_key BEFORE INSERT OR UPDATE OF key_id ON vault
    FOR EACH ROW EXECUTE FUNCTION vault_keeps_no_row_of_a_retired_key();

CREATE TABLE leases (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    space text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    holder bytea NOT NULL,
    ends_at bigint NOT NULL, -- milliseconds since 1970
    PRIMARY KEY (of_tenant, space, name)
);

-- Text of Postgres has no NUL, not even behind an escape: U+FFFD stands in its place.
CREATE FUNCTION without_nul(body text) RETURNS json LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (CASE WHEN strpos(body, '\u0000') = 0 THEN body
        ELSE regexp_replace(body, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g') END)::json;

-- The audit log: a chain for each tenant, in which each row seals all rows before it.
CREATE TABLE audit (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    seq bigint NOT NULL CHECK (seq > 0), -- without gaps
    at bigint NOT NULL,
    body text COLLATE "C" NOT NULL,
    hash bytea NOT NULL CHECK (length(hash) = 32),
    kind text COLLATE "C" GENERATED ALWAYS AS (without_nul(body) ->> 'kind') STORED,
    server text COLLATE "C" GENERATED ALWAYS AS (without_nul(body) ->> 'server') STORED,
    tool text COLLATE "C" GENERATED ALWAYS AS (without_nul(body) ->> 'tool') STORED,
    decision text COLLATE "C" GENERATED ALWAYS AS (without_nul(body) ->> 'decision') STORED,
    agent text COLLATE "C" GENERATED ALWAYS AS (without_nul(body) ->> 'agent') STORED,
    PRIMARY KEY (of_tenant, seq)
);

CREATE TABLE audit_head (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    id bigint NOT NULL CHECK (id = 1),
    seq bigint NOT NULL,
    hash bytea NOT NULL CHECK (length(hash) = 32),
    kept_from bigint NOT NULL,
    forgot_at bigint NOT NULL,
    PRIMARY KEY (of_tenant, id)
);

CREATE FUNCTION audit_rows_stay_as_they_are() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of the audit log are never changed';
END
$$;
CREATE TRIGGER audit_rows_stay_as_they_are BEFORE UPDATE ON audit
    FOR EACH ROW EXECUTE FUNCTION audit_rows_stay_as_they_are();

CREATE FUNCTION audit_rows_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.seq >= (SELECT kept_from FROM audit_head WHERE of_tenant = OLD.of_tenant) THEN
        RAISE EXCEPTION 'rows of the audit log are never deleted, unless they are old';
    END IF;
    RETURN OLD;
END
$$;
CREATE TRIGGER audit_rows_stay BEFORE DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_rows_stay();

CREATE TABLE pinned_servers (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    source text COLLATE "C" NOT NULL,
    server text COLLATE "C" NOT NULL,
    generation bigint NOT NULL,
    list bytea CHECK (length(list) = 32),
    PRIMARY KEY (of_tenant, source, server)
);

CREATE TABLE pins (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    source text COLLATE "C" NOT NULL,
    server text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    hash bytea NOT NULL CHECK (length(hash) = 32),
    definition text NOT NULL,
    renamed_to text COLLATE "C",
    pinned_at bigint NOT NULL,
    approved_by text,
    PRIMARY KEY (of_tenant, source, server, tool)
);

CREATE TABLE quarantine (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    source text COLLATE "C" NOT NULL,
    server text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    hash bytea NOT NULL CHECK (length(hash) = 32),
    definition text NOT NULL,
    cause text NOT NULL,
    was text COLLATE "C",
    since bigint NOT NULL,
    PRIMARY KEY (of_tenant, source, server, tool)
);

CREATE TABLE quota_uses (
    of_tenant text COLLATE "C" NOT NULL DEFAULT current_setting('toolrack.tenant'),
    holder text COLLATE "C" NOT NULL,
    quota text COLLATE "C" NOT NULL,
    name text,
    most bigint NOT NULL,
    used double precision NOT NULL,
    used_at bigint NOT NULL,
    PRIMARY KEY (of_tenant, holder, quota)
);

-- A tenant has only its own rows, whatever a statement says, and whoever owns the tables.
DO $$
DECLARE
    of text;
BEGIN
    FOREACH of IN ARRAY ARRAY['servers', 'server_tools', 'approvals', 'refusals', 'answers', 'server_log', 'sessions',
        'messages', 'chores', 'vault', 'vault_salt', 'vault_retired', 'leases', 'audit', 'audit_head', 'pinned_servers',
        'pins', 'quarantine', 'quota_uses']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', of);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', of);
        EXECUTE format('CREATE POLICY own_rows ON %I USING (of_tenant = nullif(current_setting(''toolrack.tenant'', '
            'true), ''''))', of);
    END LOOP;
END
$$;

INSERT INTO toolrack_schema (id, version, least) VALUES (1, 1, 1);
