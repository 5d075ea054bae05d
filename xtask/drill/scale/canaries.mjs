// Each tenant calls through each replica with words of its own. Then each tenant's role looks for what it can read in Postgres.

import { allFinds, canary, counts, look } from "../people.mjs";
import { AT_ONCE, TENANTS, each } from "../settings.mjs";
import { call } from "./calls.mjs";

/** Audit logs with arguments, so that there are words in the database. */
export const FILES = { settings: '[audit]\narguments = "full"\n' };

/** The most tenants as which all rows of all tables are read: each of these reads takes as long as there are rows of all tenants. */
const MOST_WHO_READ_ALL = 1_000;

/** Every how many tenants one reads all rows. */
const STEP = Math.ceil(TENANTS / MOST_WHO_READ_ALL);

/** For each tenant and each table with rows of tenants: how many of the rows of the next tenant its role reads, by their key. For one tenant of
 *  each STEP also, in all rows: how many its role reads, how many of these belong to others, and how many have a word of another tenant in
 *  them. Row-level security lets a role read only the rows of the tenant in `toolrack.tenant`. */
const READ_AS_EACH = `
ANALYZE;
DO $$
DECLARE
  part record; own bigint; ours bigint := 0; foreign_rows bigint := 0; words bigint := 0; others bigint; hits bigint;
BEGIN
  FOR tenant IN 0..${TENANTS - 1} LOOP
    PERFORM set_config('toolrack.tenant', 't' || tenant, true);
    FOR part IN SELECT table_name FROM information_schema.columns WHERE column_name = 'of_tenant' AND table_schema = current_schema() LOOP
      EXECUTE format('SELECT count(*) FROM %I WHERE of_tenant = $1', part.table_name)
        INTO others USING 't' || ((tenant + 1) % ${TENANTS});
      foreign_rows := foreign_rows + others;
      CONTINUE WHEN tenant % ${STEP} <> 0;
      EXECUTE format('SELECT count(*) FILTER (WHERE of_tenant = $1), count(*) FILTER (WHERE of_tenant <> $1),
        count(*) FILTER (WHERE x::text ~ (''(val|arg|res|pro|own)-(?!'' || $2 || ''-)[0-9]+-[0-9]+-[0-9a-f]{16}'')) FROM %I x', part.table_name)
        INTO own, others, hits USING 't' || tenant, tenant;
      ours := ours + own; foreign_rows := foreign_rows + others; words := words + hits;
    END LOOP;
  END LOOP;
  PERFORM set_config('drill.read', format('%s|%s|%s', ours, foreign_rows, words), false);
END $$;
SELECT current_setting('drill.read')`;

/** How many words and rows of tenants an administrator of the database reads: without any, the search above would prove nothing. */
async function asAdministrator(database) {
  const sql = "SELECT count(*), count(DISTINCT of_tenant) FILTER (WHERE of_tenant <> '*'), count(*) FILTER (WHERE x::text ~ '(arg|res|own)-[0-9]+-[0-9]+-[0-9a-f]{16}') FROM audit x";
  return (await database.alone(sql)).trim().split("|").map(Number);
}

/** Makes the calls, and reads as each tenant. */
export async function measure(members, siblings, database) {
  let failed = 0;
  let why = "";
  for (let round = 0; round < siblings.length; round += 1) {
    await each(members, AT_ONCE, async (who) => {
      const { address } = siblings[(who.tenant + round) % siblings.length];
      await call({ address, token: who.token }, "mcp__shared__echo", canary("arg", who)).then(
        (text) => look(who, "an answer", text),
        (error) => {
          failed += 1;
          why = error.message;
        },
      );
    });
    console.error(`round ${round + 1} of ${siblings.length}: ${counts.foreign} foreign bytes, ${failed} failed`);
  }
  const [[own, others, words]] = await database.rows(READ_AS_EACH);
  const [rows, tenants, withWords] = await asAdministrator(database);
  return { calls: members.length * siblings.length, failed, why, bytes: counts.bytes, seen: counts.seen, foreign: counts.foreign, finds: allFinds(), own: Number(own), others: Number(others), words: Number(words), audit: { rows, tenants, withWords } };
}
