// Many tenants and people at once: does anything of one reach another?
//
//     node drill.mjs TOOLRACK [--tenants 100] [--people 10] [--seconds 600] [--at-once 12] [--stdio 10] [--shared 1]
//
// Each person has a word of their own in the value that they give for a server, in arguments, in results and in prompts. All of
// them work at once, while tokens are revoked and roles change. Fails when a word is seen by a person who may not see it, when a
// revocation takes longer than a second, or when a request fails that should not.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const [BINARY, ...words] = process.argv.slice(2);
const option = (/** @type {string} */ name, /** @type {number} */ usual) => {
  const at = words.indexOf(`--${name}`);
  return at < 0 ? usual : Number(words[at + 1]);
};
const TENANTS = option("tenants", 100);
const PEOPLE = option("people", 10);
const SECONDS = option("seconds", 600);
const AT_ONCE = option("at-once", 12);
/** Tenants whose shared server is a process of their own. */
const STDIO = option("stdio", 10);
/** Whether tenants have a server that all share: without, only memory is measured. */
const SHARED = option("shared", 1) > 0;

const folder = mkdtempSync(join(tmpdir(), "toolrack-drill-"));
const environment = { HOME: join(folder, "home"), TOOLRACK_HOME: join(folder, "toolrack"), PATH: process.env.PATH, TMPDIR: folder };
const sleep = (/** @type {number} */ ms) => new Promise((over) => setTimeout(over, ms));
const run = promisify(execFile);

/** The first line of a program. */
function firstLine(child) {
  return new Promise((found, failed) => {
    let out = "";
    let err = "";
    child.stderr.on("data", (piece) => (err = `${err}${piece}`.slice(-4_000)));
    child.stdout.on("data", (piece) => {
      out += piece;
      if (out.includes("\n")) found(out.split("\n")[0]);
    });
    child.on("exit", (code) => failed(new Error(`it ended with ${code}: ${out} ${err}`)));
  });
}

// --- the people -----------------------------------------------------------------------------------------------------------------

/** All words begin with their kind, and say whose they are: val- (a value), arg-, res- (arguments and results), pro- (prompts). */
const CANARY = /(val|arg|res|pro|own)-(\d+)-(\d+)-[0-9a-f]{16}/g;
const canary = (kind, { tenant, number }) => `${kind}-${tenant}-${number}-${randomBytes(8).toString("hex")}`;

const people = [];
const officials = [];
for (let tenant = 0; tenant < TENANTS; tenant += 1) {
  for (let number = 0; number < PEOPLE; number += 1) people.push({ tenant, number, name: `t${tenant}p${number}`, role: "user" });
  officials.push({ tenant, number: 9_000, name: `t${tenant}op`, role: "operator" });
  officials.push({ tenant, number: 9_001, name: `t${tenant}au`, role: "auditor" });
}

const counts = { requests: 0, calls: 0, bytes: 0, foreign: 0, unexpected: 0, revocations: [], roles: [], statuses: {}, seen: {} };
const finds = [];
const latencies = [];

/** Whether a person may see a word. What one asks, those who answer for the tenant see; what they gave for a server, no one does. */
function maySee(who, [, kind, tenant, number]) {
  if (Number(tenant) !== who.tenant) return false;
  if (Number(number) === who.number || kind === "own") return true;
  return who.role !== "user" && kind === "arg";
}

function look(who, what, text) {
  counts.bytes += text.length;
  for (const found of text.matchAll(CANARY)) {
    counts.seen[found[1]] = (counts.seen[found[1]] ?? 0) + 1;
    if (maySee(who, found)) continue;
    counts.foreign += found[0].length;
    if (finds.length < 10) finds.push(`${who.name} (${who.role}) saw ${found[0]} in ${what}`);
  }
}

// --- requests -------------------------------------------------------------------------------------------------------------------

const agent = new Agent({ keepAlive: true, maxSockets: 400 });
let address = "";

/** @returns {Promise<{status: number, text: string}>} */
function asks(token, method, path, body, headers = {}, onData) {
  const [host, port] = address.split(":");
  const text = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((done, failed) => {
    const all = {
      host: address,
      authorization: `Bearer ${token}`,
      ...(text === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(text) }),
      ...headers,
    };
    const sent = request({ host, port, method, path, agent, headers: all }, (response) => {
      let answer = "";
      response.setEncoding("utf8");
      response.on("data", (piece) => (onData ? onData(piece) : (answer += piece)));
      response.on("end", () => done({ status: response.statusCode ?? 0, text: answer }));
      response.on("error", failed);
    });
    sent.on("error", failed);
    sent.end(text);
  });
}

const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "drill", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

function mcp(who, method, params = {}) {
  const headers = {
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": method,
    ...(params.name ? { "mcp-name": params.name } : {}),
  };
  return asks(who.token, "POST", "/mcp", { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: META } }, headers);
}

const KINDS = [
  ["a call of their own server", (who) => mcp(who, "tools/call", { name: "mcp__mine__echo", arguments: { text: canary("arg", who) } })],
  ["a call of their own server", (who) => mcp(who, "tools/call", { name: "mcp__mine__echo", arguments: { text: canary("arg", who) } })],
  ["a call of the shared server", (who) => mcp(who, "tools/call", { name: "mcp__shared__echo", arguments: { text: canary("arg", who) } })],
  ["a call over the API", (who) => asks(who.token, "POST", "/api/v1/calls", { tool: "shared/echo", arguments: { text: canary("arg", who), pause: 20 }, id: "1" })],
  ["a prompt", (who) => mcp(who, "prompts/get", { name: "mcp__mine__say", arguments: { text: canary("pro", who) } })],
  ["the tools", (who) => mcp(who, "tools/list")],
  ["the tools over the API", (who) => asks(who.token, "GET", "/api/v1/tools")],
  ["the servers", (who) => asks(who.token, "GET", "/api/v1/servers")],
  ["the overview", (who) => asks(who.token, "GET", "/api/v1/overview")],
  ["the own credentials", (who) => asks(who.token, "GET", "/api/v1/me/credentials")],
  ["the questions", (who) => asks(who.token, "GET", "/api/v1/approvals")],
];
const OF_OFFICIALS = {
  operator: [["the metrics", "/metrics"], ["the servers", "/api/v1/servers"], ["the questions", "/api/v1/approvals"], ["a log", "/api/v1/servers/shared/logs"]],
  auditor: [["the audit log", "/api/v1/audit?limit=50"]],
};

async function works(who, kind, send) {
  // A request during a change of its member may be refused.
  const changes = who.changes ?? 0;
  const begun = performance.now();
  let answer;
  try {
    answer = await send();
  } catch (error) {
    answer = { status: 0, text: String(error) };
  }
  latencies.push(performance.now() - begun);
  counts.requests += 1;
  counts.statuses[answer.status] = (counts.statuses[answer.status] ?? 0) + 1;
  look(who, kind, answer.text);
  const isCall = /call/.test(kind);
  if (isCall && answer.status === 200) counts.calls += 1;
  const failed = answer.status !== 200 || (isCall && !answer.text.includes("res-"));
  const isExcused = who.isChanging || changes !== (who.changes ?? 0);
  if (failed && !isExcused) {
    counts.unexpected += 1;
    if (finds.length < 30) finds.push(`${who.name}: ${kind}: ${answer.status} ${answer.text.slice(0, 300)}`);
  }
}

// --- changes --------------------------------------------------------------------------------------------------------------------

const command = async (...given) => (await run(BINARY, given, { env: environment, cwd: folder })).stdout;

async function token(who, role = who.role) {
  const words = ["team", "token", who.name, "--tenant", `t${who.tenant}`, "--role", role, "--json"];
  const made = JSON.parse(await command(...words));
  return { token: made.token, id: made.id };
}

/** How long it takes until a request of `who` has this status. */
async function until(who, status, send) {
  const begun = performance.now();
  while ((await send(who)).status !== status) {
    if (performance.now() - begun > 10_000) return 10_000;
    await sleep(10);
  }
  return performance.now() - begun;
}

/** Gives the value that the person's own server needs. */
const gives = (who) => asks(who.token, "PUT", "/api/v1/me/credentials/CANARY", { value: canary("val", who) });

async function changes(round) {
  const who = people[Math.floor(Math.random() * people.length)];
  who.isChanging = true;
  who.changes = (who.changes ?? 0) + 1;
  const me = (one) => asks(one.token, "GET", "/api/v1/me");
  if (round % 3 === 0) {
    await command("team", "revoke", who.id);
    counts.revocations.push(await until(who, 401, me));
    Object.assign(who, await token(who));
  } else if (round % 3 === 1) {
    await command("team", "remove", who.name);
    counts.revocations.push(await until(who, 401, me));
    Object.assign(who, await token(who));
    // What they gave was deleted with them.
    await until(who, 200, me);
    await expects(204, gives(who));
  } else {
    const call = (one) => asks(one.token, "POST", "/api/v1/calls", { tool: "shared/echo", arguments: { text: canary("arg", one) } });
    await token(who, "viewer");
    counts.roles.push(await until(who, 403, call));
    await token(who, "user");
    counts.roles.push(await until(who, 200, call));
  }
  assert.equal((await until(who, 200, me)) < 10_000, true);
  who.changes += 1;
  who.isChanging = false;
}

// --- the whole ------------------------------------------------------------------------------------------------------------------

const rss = (/** @type {number} */ pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);

/** Does `work` for each, so many at a time. */
async function each(all, atOnce, work) {
  const rest = [...all];
  await Promise.all(Array.from({ length: atOnce }, async () => { for (let one; (one = rest.shift()); ) await work(one); }));
}

async function expects(status, answer) {
  const { status: was, text } = await answer;
  assert.equal(was, status, text);
}

const own = (tenant) => `own-${tenant}-9999-${"0".repeat(16)}`;
const server = spawn(process.execPath, [join(import.meta.dirname, "echo.mjs")], { stdio: ["pipe", "pipe", "pipe"] });
const echo = await firstLine(server);
mkdirSync(environment.HOME, { recursive: true });
for (let tenant = 0; tenant < TENANTS; tenant += 1) {
  const home = join(folder, "tenants", `t${tenant}`);
  mkdirSync(home, { recursive: true });
  const process_ = { command: process.execPath, args: [join(import.meta.dirname, "echo.mjs"), "--stdio"], env: { OWN: own(tenant) } };
  const shared = tenant < STDIO ? process_ : { url: echo, headers: { "X-Own": own(tenant) } };
  const mine = { url: echo, headers: { "X-Own": "${user:CANARY}" } };
  writeFileSync(join(home, "mcp.json"), JSON.stringify({ mcpServers: SHARED ? { shared, mine } : { mine } }));
}
const tenants = Array.from({ length: TENANTS }, (_, tenant) => `[[tenants]]\nid = "t${tenant}"\n`);
writeFileSync(join(folder, "team.toml"), `url = "http://127.0.0.1:1"\n${tenants.join("")}`);

let begun = performance.now();
const seconds = () => ((performance.now() - begun) / 1000).toFixed(1);
await each([...people, ...officials], 2, async (who) => Object.assign(who, await token(who)));
console.log(`${people.length} people and ${officials.length} officials of ${TENANTS} tenants have tokens after ${seconds()} s`);

const serve = ["serve", "--no-open", "--json", "--with-parent", "--team", join(folder, "team.toml"), "--allow", "*", "--listen", "127.0.0.1:0"];
const daemon = spawn(BINARY, serve, { cwd: folder, env: environment, stdio: ["pipe", "pipe", "pipe"] });
address = JSON.parse(await firstLine(daemon)).address;
await sleep(2_000);
const memory = { alone: rss(daemon.pid) };
const operators = officials.filter(({ role }) => role === "operator");
await each(operators, 4, (who) => expects(200, asks(who.token, "GET", "/api/v1/answers")));
await sleep(3_000);
memory.tenants = rss(daemon.pid);
begun = performance.now();
await each(people, 4, (who) => expects(200, asks(who.token, "GET", "/api/v1/tools")));
await sleep(3_000);
memory.worlds = rss(daemon.pid);
const cost = (more, less, of) => `${((more - less) / of).toFixed(0)} KiB`;
console.log(`${people.length} worlds after ${seconds()} s
memory: ${memory.alone} KiB alone; a tenant ${cost(memory.tenants, memory.alone, TENANTS)}; a person's world with ${
  SHARED ? "a shared" : "no"
} server and none of its own ${cost(memory.worlds, memory.tenants, people.length)}`);
begun = performance.now();
await each(people, 4, (who) => expects(204, gives(who)));
await each(people, 4, async (who) => {
  const end = performance.now() + 30_000;
  const call = { tool: "mine/echo", arguments: { text: canary("arg", who) } };
  for (let answer; (answer = await asks(who.token, "POST", "/api/v1/calls", call)).status !== 200; await sleep(50)) {
    assert.ok(performance.now() < end, answer.text);
  }
});
await sleep(3_000);
memory.servers = rss(daemon.pid);
console.log(`their own servers run after ${seconds()} s`);
console.log(`memory: one server of their own over HTTP ${cost(memory.servers, memory.worlds, people.length)}`);

if (SECONDS === 0) {
  daemon.kill("SIGTERM");
  await new Promise((ended) => daemon.once("exit", ended));
  server.kill();
  rmSync(folder, { recursive: true, force: true });
  process.exit(0);
}
begun = performance.now();
let isOver = false;
const streams = operators.map((who) => {
  let rest = "";
  return asks(who.token, "GET", "/api/v1/events", undefined, { accept: "text/event-stream" }, (piece) => {
    // A word may be cut between two pieces.
    const text = rest + piece;
    const end = text.lastIndexOf("\n") + 1;
    look(who, "events", text.slice(0, end));
    rest = text.slice(end);
  }).then(
    () => {
      if (!isOver) finds.push(`the events of ${who.name} ended`);
    },
    () => undefined,
  );
});
const workers = Array.from({ length: AT_ONCE }, async () => {
  while (!isOver) {
    if (Math.random() < 0.05) {
      const who = officials[Math.floor(Math.random() * officials.length)];
      const places = OF_OFFICIALS[who.role];
      const [kind, path] = places[Math.floor(Math.random() * places.length)];
      await works(who, kind, () => asks(who.token, "GET", path));
      continue;
    }
    const who = people[Math.floor(Math.random() * people.length)];
    // One call has a name, which another of the same person cannot have meanwhile.
    const [kind, send] = KINDS[Math.floor(Math.random() * KINDS.length)];
    if (who.isChanging || (kind === "a call over the API" && who.isCalling)) continue;
    if (kind === "a call over the API") who.isCalling = true;
    await works(who, kind, () => send(who));
    if (kind === "a call over the API") who.isCalling = false;
  }
});
const changing = (async () => {
  for (let round = 0; !isOver; round += 1) {
    await changes(round);
    await sleep(200);
  }
})();
for (let left = SECONDS; left > 0; left -= 15) {
  await sleep(Math.min(left, 15) * 1_000);
  console.log(`${seconds()} s: ${counts.requests} requests, ${counts.foreign} foreign bytes, ${counts.unexpected} unexpected, ${rss(daemon.pid)} KiB`);
}
isOver = true;
await Promise.all([...workers, changing]);
memory.end = rss(daemon.pid);
const duration = (performance.now() - begun) / 1000;
agent.destroy();
daemon.kill("SIGTERM");
await new Promise((ended) => daemon.once("exit", ended));
await Promise.all(streams);

// What is on the disk: no value stands there as it was given.
let onDisk = 0;
for (let tenant = 0; tenant < TENANTS; tenant += 1) {
  for (const suffix of ["", "-wal"]) {
    let bytes = "";
    try {
      bytes = readFileSync(join(folder, "tenants", `t${tenant}`, `toolrack.db${suffix}`), "latin1");
    } catch {
      continue;
    }
    for (const [, kind, of] of bytes.matchAll(CANARY)) if (kind === "val" || Number(of) !== tenant) onDisk += 1;
  }
}
server.kill();
rmSync(folder, { recursive: true, force: true });

const sorted = (all) => [...all].sort((one, other) => one - other);
const at = (all, part) => (sorted(all)[Math.min(all.length - 1, Math.floor(all.length * part))] ?? 0).toFixed(0);
console.log(`
${TENANTS} tenants, ${people.length} people, ${AT_ONCE} at once for ${duration.toFixed(0)} s, ${operators.length} event streams
requests            ${counts.requests} (${(counts.requests / duration).toFixed(0)}/s, ${counts.calls} calls), ${(counts.bytes / 1e6).toFixed(1)} MB looked at
statuses            ${JSON.stringify(counts.statuses)}
words seen          ${JSON.stringify(counts.seen)}
latency             median ${at(latencies, 0.5)} ms, 99 % ${at(latencies, 0.99)} ms, longest ${at(latencies, 1)} ms
foreign bytes       ${counts.foreign} (goal 0)
values on the disk  ${onDisk} (goal 0)
unexpected errors   ${counts.unexpected} (goal 0)
revocations         ${counts.revocations.length}: median ${at(counts.revocations, 0.5)} ms, longest ${at(counts.revocations, 1)} ms (goal 1,000 ms)
changes of a role   ${counts.roles.length}: median ${at(counts.roles, 0.5)} ms, longest ${at(counts.roles, 1)} ms (goal 1,000 ms)
memory at the end   ${memory.end} KiB, ${memory.servers} KiB before
${finds.join("\n")}`);
const longest = Math.max(0, ...counts.revocations, ...counts.roles);
const isSeen = ["arg", "res", "pro", "own"].every((kind) => counts.seen[kind] > 0);
const isGood = isSeen && counts.foreign === 0 && onDisk === 0 && counts.unexpected === 0 && longest < 1_000;
process.exit(isGood ? 0 : 1);
