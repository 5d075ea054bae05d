// Changes of members and tenants: each must be in force within a second.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";

import { BARRED, RULES, command, rulesOf } from "./daemon.mjs";
import { canary, delays, people } from "./people.mjs";
import { asks, hasStatus, mcp, until } from "./wire.mjs";

/** Makes a token, and gives the member this role and these groups. */
export async function token(who, role = who.role, groups = []) {
  const words = ["team", "token", who.name, "--tenant", `t${who.tenant}`, "--role", role, "--json"];
  const made = JSON.parse(await command(...words, ...groups.flatMap((group) => ["--group", group])));
  return { token: made.token, id: made.id };
}

/** Gives the value that the person's own server needs. */
export const gives = (who) => asks(who, "PUT", "/api/v1/me/credentials/CANARY", { value: canary("val", who) });

const me = (who) => () => asks(who, "GET", "/api/v1/me");
const call = (who, tool) => () => asks(who, "POST", "/api/v1/calls", { tool, arguments: { text: canary("arg", who) } });

async function revoked(who) {
  await command("team", "revoke", who.id);
  delays.revocations.push(await until(hasStatus(401), me(who)));
  Object.assign(who, await token(who));
}

async function removed(who) {
  await command("team", "remove", who.name);
  delays.revocations.push(await until(hasStatus(401), me(who)));
  Object.assign(who, await token(who));
  // What they gave was deleted with them.
  await until(hasStatus(200), me(who));
  // Their world before may still be about to end, and asks to be asked once more.
  assert.equal((await until(hasStatus(204), () => gives(who))) < 10_000, true);
}

async function otherRole(who) {
  await token(who, "viewer");
  delays.roles.push(await until(hasStatus(403), call(who, "shared/echo")));
  await token(who, "user");
  delays.roles.push(await until(hasStatus(200), call(who, "shared/echo")));
}

async function otherGroups(who) {
  const tools = () => mcp(who, "tools/list");
  const has = ({ text }) => text.includes("mcp__grouped__echo");
  await token(who, who.role, ["drill"]);
  delays.groups.push(await until(has, tools));
  await token(who, who.role, ["other"]);
  delays.groups.push(await until((answer) => answer.status === 200 && !has(answer), tools));
}

/** A rule of the whole tenant. No one else calls the tool that it forbids. */
async function otherPolicy(who) {
  const isDone = ({ status, text }) => status === 200 && text.includes("res-");
  const barred = call(who, "shared/barred");
  writeFileSync(rulesOf(who.tenant), BARRED);
  delays.policies.push(await until((answer) => !isDone(answer), barred));
  writeFileSync(rulesOf(who.tenant), RULES);
  delays.policies.push(await until(isDone, barred));
}

const KINDS = [revoked, otherGroups, removed, otherRole, otherPolicy];

/** Changes one person, or their tenant. */
export async function change(round) {
  const who = people[Math.floor(Math.random() * people.length)];
  who.isChanging = true;
  who.changes = (who.changes ?? 0) + 1;
  await KINDS[round % KINDS.length](who);
  assert.equal((await until(hasStatus(200), me(who))) < 10_000, true);
  who.changes += 1;
  who.isChanging = false;
}
