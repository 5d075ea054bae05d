// Tokens for a member of each tenant. `toolrack team token` makes the first one. The script writes the rows of all others itself: with
// 10,000 tenants the command would take longer than what is measured.

import { createHash } from "node:crypto";
import { join } from "node:path";

import { people } from "../people.mjs";
import { TENANTS, folder } from "../settings.mjs";

const tokenOf = (tenant) => `trk_${createHash("sha256").update(`the token of t${tenant}`).digest("hex")}`;

const ON_POSTGRES = (from) => `
  INSERT INTO team_members (issuer, subject, kind, tenant, name, groups, role, changed_at)
    SELECT m.issuer, 't' || n || 'p0', m.kind, 't' || n, 't' || n || 'p0', m.groups, m.role, m.changed_at
    FROM team_members m, generate_series(${from}, ${TENANTS - 1}) n WHERE m.subject = 't0p0';
  INSERT INTO team_tokens (hash, id, issuer, subject, purpose, label, made_at, ends_at)
    SELECT sha256(('trk_' || encode(sha256(('the token of t' || n)::bytea), 'hex'))::bytea), 'token' || n, t.issuer, 't' || n || 'p0', t.purpose,
      t.label, t.made_at, t.ends_at
    FROM team_tokens t, generate_series(${from}, ${TENANTS - 1}) n WHERE t.subject = 't0p0'`;

/** Writes rows into the SQLite database of the replica, which reads them as it reads those of the command. */
async function addOnSqlite(home) {
  const { DatabaseSync } = await import("node:sqlite");
  const database = new DatabaseSync(join(home, "toolrack.db"));
  const member = database.prepare(`INSERT INTO team_members (issuer, subject, kind, tenant, name, groups, role, changed_at)
    SELECT issuer, ?1, kind, ?2, ?1, groups, role, changed_at FROM team_members WHERE subject = 't0p0'`);
  const token = database.prepare(`INSERT INTO team_tokens (hash, id, issuer, subject, purpose, label, made_at, ends_at)
    SELECT ?2, ?3, issuer, ?1, purpose, label, made_at, ends_at FROM team_tokens WHERE subject = 't0p0'`);
  database.exec("PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE");
  for (let tenant = 1; tenant < TENANTS; tenant += 1) {
    member.run(`t${tenant}p0`, `t${tenant}`);
    token.run(`t${tenant}p0`, createHash("sha256").update(tokenOf(tenant)).digest(), `token${tenant}`);
  }
  database.exec("COMMIT");
  database.close();
}

/** Gives the first member of each tenant a token, and returns these members. `database` is a Postgres; undefined means SQLite. */
export async function makeMembers(sibling, database) {
  const members = people.filter(({ number }) => number === 0);
  for (const who of members) who.token = tokenOf(who.tenant);
  const words = ["team", "token", "t0p0", "--tenant", "t0", "--json"];
  members[0].token = JSON.parse(await sibling.command(words)).token;
  if (TENANTS === 1) return members;
  if (database) await database.rows(ON_POSTGRES(1));
  else await addOnSqlite(join(folder, `r${sibling.number}`));
  return members;
}
