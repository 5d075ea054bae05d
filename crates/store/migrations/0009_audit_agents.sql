-- In the name of which agent something happened. As the columns beside it, it says what the body says, and no row changes.
ALTER TABLE audit ADD COLUMN agent TEXT AS (CASE WHEN json_valid(body) THEN body ->> '$.agent' END) VIRTUAL;

PRAGMA user_version = 9;
