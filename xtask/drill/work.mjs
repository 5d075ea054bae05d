// What people do all the time.

import { canary, counts, found, guests, latencies, look, officials, people } from "./people.mjs";
import { asks, mcp } from "./wire.mjs";

const calls = (server) => (who) => mcp(who, "tools/call", { name: `mcp__${server}__echo`, arguments: { text: canary("arg", who) } });
const gets = (path) => (who) => asks(who, "GET", path);
const pausing = (who) =>
  asks(who, "POST", "/api/v1/calls", { tool: "shared/echo", arguments: { text: canary("arg", who), pause: 20 }, id: "1" });
const prompt = (who) => mcp(who, "prompts/get", { name: "mcp__mine__say", arguments: { text: canary("pro", who) } });

/** What it is called, how it is done, and what its answer contains. */
const OF_PEOPLE = [
  ["a call of their own server", calls("mine"), "res-"],
  ["a call of their own server", calls("mine"), "res-"],
  ["a call of the shared server", calls("shared"), "res-"],
  ["a call over the API", pausing, "res-"],
  ["a prompt", prompt, "pro-"],
  ["the tools", (who) => mcp(who, "tools/list"), "mcp__mine__echo"],
  ["the tools over the API", gets("/api/v1/tools"), "mine"],
  ["the servers", gets("/api/v1/servers"), "mine"],
  ["the overview", gets("/api/v1/overview"), ""],
  ["the own credentials", gets("/api/v1/me/credentials"), "CANARY"],
  ["the questions", gets("/api/v1/approvals"), ""],
  ["the own tokens", gets("/api/v1/me/tokens"), ""],
];
const OF_OFFICIALS = {
  operator: ["/metrics", "/api/v1/servers", "/api/v1/approvals", "/api/v1/servers/shared/logs", "/api/v1/overview", "/api/v1/config"],
  auditor: ["/api/v1/audit?limit=50", "/api/v1/overview"],
  admin: ["/api/v1/members", "/api/v1/sessions", "/api/v1/profiles"],
};
const OF_BROWSERS = ["/", "/api/v1/me", "/api/v1/overview", "/api/v1/tools", "/api/v1/me/clients", "/api/v1/me/tokens"];

const any = (/** @type {any[]} */ of) => of[Math.floor(Math.random() * of.length)];

/** Sends a request and looks at its answer. It may fail only while its member is changed. */
async function does(who, kind, send, expected = "") {
  const changes = who.changes ?? 0;
  const begun = performance.now();
  let answer;
  try {
    answer = await send(who);
  } catch (error) {
    answer = { status: 0, text: String(error) };
  }
  latencies.push(performance.now() - begun);
  counts.requests += 1;
  counts.statuses[answer.status] = (counts.statuses[answer.status] ?? 0) + 1;
  look(who, kind, answer.text);
  const isGood = answer.status === 200 && answer.text.includes(expected);
  if (isGood && expected === "res-") counts.calls += 1;
  if (!isGood && !who.isChanging && changes === (who.changes ?? 0)) {
    counts.unexpected += 1;
    // One of each person says enough.
    if (!who.hasFailed) found(`${who.name}: ${kind}: ${answer.status} ${answer.text.slice(0, 300)}`);
    who.hasFailed = true;
  }
}

/** One thing that one of all people does. */
export async function something() {
  if (Math.random() < 0.05) {
    const who = any(officials);
    const path = any(OF_OFFICIALS[who.role]);
    return does(who, path, gets(path));
  }
  if (guests.length > 0 && Math.random() < 0.05) {
    const who = any(guests);
    const path = any(OF_BROWSERS);
    return who.isChanging ? undefined : does(who, path, gets(path));
  }
  const who = any(people);
  const [kind, send, expected] = any(OF_PEOPLE);
  if (who.isChanging) return undefined;
  if (send !== pausing) return does(who, kind, send, expected);
  // Such a call has a name, which another of the same person cannot have meanwhile.
  if (who.isCalling) return undefined;
  who.isCalling = true;
  await does(who, kind, send, expected);
  who.isCalling = false;
}
