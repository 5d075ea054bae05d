-- Conversations with models. All times of these tables are milliseconds since 1970.
CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY, -- a UUID as text; of version 7 where this program made it
    title TEXT NOT NULL,
    model TEXT, -- who answered last
    agent TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- What all messages have cost: tokens, and billionths of a US dollar as far as prices are known.
    input INTEGER NOT NULL DEFAULT 0,
    output INTEGER NOT NULL DEFAULT 0,
    cached_read INTEGER NOT NULL DEFAULT 0,
    cache_write INTEGER NOT NULL DEFAULT 0,
    reasoning INTEGER NOT NULL DEFAULT 0,
    cost INTEGER,
    open_turn TEXT -- JSON as the agent writes it; null when no turn is open
) STRICT;

CREATE INDEX sessions_by_age ON sessions (updated_at, id);

-- The names of the first seven columns are a promise to programs that read them.
CREATE TABLE messages (
    id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
    content TEXT NOT NULL,
    tool_calls TEXT, -- JSON: [{"id", "name", "input"}]
    tool_results TEXT, -- JSON: {"tool_call_id"}
    timestamp INTEGER NOT NULL,
    position INTEGER NOT NULL CHECK (position >= 0), -- within the session, without gaps
    body TEXT, -- JSON: the whole message as the agent writes it
    -- What this message has cost; null when nobody said.
    input INTEGER,
    output INTEGER,
    cached_read INTEGER,
    cache_write INTEGER,
    reasoning INTEGER,
    cost INTEGER,
    UNIQUE (session_id, position)
) STRICT;

-- What is done now and then, and when it was done last.
CREATE TABLE chores (
    name TEXT NOT NULL PRIMARY KEY,
    done_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 3;
