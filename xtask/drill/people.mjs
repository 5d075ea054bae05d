// The people, their words, and what was seen of these.

import { randomBytes } from "node:crypto";

import { GUESTS, PEOPLE, TENANTS } from "./settings.mjs";

/** Words begin with their kind, and say whose they are: val- (a value that a person gave), arg- and res- (arguments and results),
 *  pro- (prompts), own- (what the tenant's file gives a server). */
const CANARY = /(val|arg|res|pro|own)-(\d+)-(\d+)-[0-9a-f]{16}/g;
/** Tokens of members, and of clients that they allowed. */
const TOKEN = /tr[abkr]_[0-9A-Za-z]{16,}/g;

export const canary = (kind, { tenant, number }) => `${kind}-${tenant}-${number}-${randomBytes(8).toString("hex")}`;
/** What a tenant's file gives its servers. */
export const own = (tenant) => `own-${tenant}-9999-${"0".repeat(16)}`;

export const people = [];
export const officials = [];
/** People who sign in with a browser. */
export const guests = [];
for (let tenant = 0; tenant < TENANTS; tenant += 1) {
  for (let number = 0; number < PEOPLE; number += 1) people.push({ tenant, number, name: `t${tenant}p${number}`, role: "user" });
  officials.push({ tenant, number: 9_000, name: `t${tenant}op`, role: "operator" });
  officials.push({ tenant, number: 9_001, name: `t${tenant}au`, role: "auditor" });
  officials.push({ tenant, number: 9_002, name: `t${tenant}ad`, role: "admin" });
  if (tenant < GUESTS) guests.push({ tenant, number: 9_500, name: `guest@t${tenant}.example`, role: "user" });
}
export const operators = officials.filter(({ role }) => role === "operator");

export const counts = {
  requests: 0,
  calls: 0,
  bytes: 0,
  foreign: 0,
  unexpected: 0,
  renewals: 0,
  lostSessions: 0,
  statuses: {},
  seen: {},
};
/** How long it took until changes were in force, in milliseconds. */
export const delays = { revocations: [], "sign-outs": [], roles: [], groups: [], policies: [] };
export const latencies = [];
const finds = [];

export function found(text) {
  if (finds.length < 30) finds.push(text);
}
export const allFinds = () => finds.join("\n");

/** Whether a person may see a word. What one asks, those who answer for the tenant see; what they gave for a server, no one does. */
function maySee(who, [, kind, tenant, number]) {
  if (Number(tenant) !== who.tenant) return false;
  if (Number(number) === who.number || kind === "own") return true;
  return who.role !== "user" && kind === "arg";
}

/** Looks for words in what `who` got. */
export function look(who, what, text) {
  counts.bytes += text.length;
  for (const word of text.matchAll(CANARY)) {
    counts.seen[word[1]] = (counts.seen[word[1]] ?? 0) + 1;
    if (!maySee(who, word)) foreign(`${who.name} (${who.role}) saw ${word[0]} in ${what}`, word[0]);
  }
  for (const [token] of text.matchAll(TOKEN)) foreign(`${who.name} (${who.role}) saw a token in ${what}`, token);
}

/** Looks for words where none may be at all. */
export function lookAtLog(what, text) {
  counts.bytes += text.length;
  for (const [word] of text.matchAll(CANARY)) foreign(`${word} is in ${what}`, word);
  for (const [token] of text.matchAll(TOKEN)) foreign(`a token is in ${what}`, token);
}

/** The words on a disk that no one may find there: values, and what belongs to another tenant. */
export function misplaced(bytes, tenant) {
  const words = [...bytes.matchAll(CANARY)].filter(([, kind, of]) => kind === "val" || Number(of) !== tenant);
  return words.length + [...bytes.matchAll(TOKEN)].length;
}

function foreign(what, bytes) {
  counts.foreign += bytes.length;
  found(what);
}
