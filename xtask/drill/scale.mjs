// What one replica and several can do: how much processor time of the replicas a call takes, how long it takes, what the world of a tenant
// takes in memory, and how long the first call of a tenant takes whose world does not run. Beside it, the same calls through ContextForge.
//
//     node scale.mjs TOOLRACK [--only replicas,shares,forwarding,tenants,contextforge,neighbours,canaries] [--replicas 1,2,3]
//                             [--tenants 10,1000] [--active 500] [--seconds 20] [--at-once 16] [--share 0.2] [--rounds 1] [--turns 3]
//                             [--loops 8]
//
// Gateways run on the first processor, and all else on the others: clients, the server that they call, Postgres and Redis. Time of the
// processor is compared, and not only calls in a second, because the clients need longer for a call than a replica does. Clients are of
// 2026-07-28, and call through each replica in turn, as behind a load balancer without stickiness, and in the rows `sticky` all calls of a
// tenant through one of them. `shares` gives each replica its own part of a processor, for which Linux asks for root, and compares calls in
// a second: what a further replica adds where each has a machine of its own. Beside ContextForge clients are of 2025-11-25, which is the
// newest revision that it speaks. `shares` and `canaries` are measured only when they are named.

import { execFile } from "node:child_process";
import { rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { promisify } from "node:util";

import { canary } from "./people.mjs";
import { endHelpers } from "./processes.mjs";
import { Cluster } from "./replicas/cluster.mjs";
import { REPLICAS, homesAt, makeSiblings, prepareSmall } from "./replicas/siblings.mjs";
import * as canaries from "./scale/canaries.mjs";
import { agent, begin, call, load } from "./scale/calls.mjs";
import * as contextforge from "./scale/contextforge.mjs";
import { makeMembers } from "./scale/members.mjs";
import * as neighbours from "./scale/neighbours.mjs";
import { memory, taken } from "./scale/processor.mjs";
import { limit } from "./scale/share.mjs";
import { AT_ONCE, BINARY, SECONDS, TENANTS, each, folder, option, percentile, sleep, word } from "./settings.mjs";

/** How many of the tenants call: each that does has a world, and with SQLite a database of its own that stays open. */
const ACTIVE_AT_MOST = option("active", 500);
const ACTIVE = Math.min(ACTIVE_AT_MOST, TENANTS);
/** How long replicas are left without a request, in seconds. */
const IDLE = 5;
/** How often each row is measured; the middle one of the results counts. */
const ROUNDS = option("rounds", 1);
/** The part of a processor that each replica has for itself in `share`. */
const SHARE = option("share", 0.2);
const TOOL = "mcp__shared__echo";

/** Starts the replicas on Postgres, or one on SQLite, with a member of each tenant. Returns them, and what ends them. */
async function start(isOnPostgres, files) {
  const database = isOnPostgres ? new Cluster().create() : undefined;
  await database?.start();
  const siblings = await makeSiblings();
  await prepareSmall(database?.url, files);
  for (const sibling of siblings) await sibling.start();
  const members = await makeMembers(siblings[0], database);
  const stop = async () => {
    await Promise.all(siblings.map((sibling) => sibling.stop()));
    await database?.remove();
  };
  let turn = 0;
  const addressOf = () => siblings[(turn += 1) % siblings.length].address;
  return { database, siblings, members, addressOf, stop };
}

/** Which part of a processor these processes take while there is no request. */
async function takenIdle(pids) {
  const before = taken(pids);
  await sleep(IDLE * 1_000);
  return (taken(pids) - before) / IDLE;
}

/** Measures calls of tenants. With `hasSessions` the clients are of 2025-11-25. With `isSticky` all calls of a tenant go to one replica, which
 *  thus is its home. With a `share` each replica may use that part of a processor, and no more. */
async function measureCalls(isOnPostgres, { hasSessions = false, isSticky = false, share = 0 } = {}) {
  const { database, siblings, members, addressOf, stop } = await start(isOnPostgres);
  const addressFor = isSticky ? (who) => siblings[who.tenant % siblings.length].address : addressOf;
  const pids = siblings.map(({ child }) => child.pid);
  const active = members.slice(0, ACTIVE);
  const text = (who) => canary("arg", who);
  const ask = (who) => call({ address: addressFor(who), token: who.token }, TOOL, text(who));
  const before = memory(pids);
  const first = [];
  await each(active, 1, async (who) => {
    const begun = performance.now();
    await ask(who);
    first.push(performance.now() - begun);
  });
  const grown = memory(pids) - before;
  // Each replica knows each member, and has a connection to each sibling.
  for (let round = 0; round < REPLICAS; round += 1) await each(active, AT_ONCE, ask);
  const idle = await takenIdle(pids);
  const client = async (_, number) => {
    const who = active[number % active.length];
    const inSession = hasSessions ? await begin({ address: addressFor(who), token: who.token }) : undefined;
    if (inSession) return () => inSession(TOOL, text(who));
    return (round) => ask(active[(number + round * 7) % active.length]);
  };
  const clients = await Promise.all(Array.from({ length: AT_ONCE }, client));
  const unlimit = share ? limit(pids, share) : undefined;
  const seen = await load(clients, SECONDS, { gateway: pids, database: database ? [database.pid] : [] });
  await stop();
  unlimit?.();
  return { ...seen, idle, memory: grown / ACTIVE, first: percentile(first, 0.5), firstMost: percentile(first, 0.99) };
}

/** Measures calls that one replica forwards to another: what each of the two takes. */
async function measureForwarding() {
  const { database, siblings, members, stop } = await start(true);
  const [home, front] = siblings;
  const ask = (who, { address }) => call({ address, token: who.token }, TOOL, canary("arg", who));
  for (const who of members) await ask(who, home);
  const homes = await homesAt(home.number, database);
  if (homes.length < members.length) throw new Error(`only ${homes.length} of ${members.length} tenants are at home where they called`);
  const clientsAt = (sibling) => Array.from({ length: AT_ONCE }, (_, number) => (round) => ask(members[(number + round) % members.length], sibling));
  const watched = { front: [front.child.pid], home: [home.child.pid], database: [database.pid] };
  await load(clientsAt(front), 1, watched);
  const direct = await load(clientsAt(home), SECONDS / 2, watched);
  const forwarded = await load(clientsAt(front), SECONDS / 2, watched);
  await stop();
  return { direct, forwarded };
}

async function measureNeighbours() {
  const { members, addressOf, stop } = await start(true, neighbours.FILES);
  const seen = await neighbours.measure(members, addressOf);
  await stop();
  return seen;
}

async function measureCanaries() {
  const { database, siblings, members, stop } = await start(true, canaries.FILES);
  const seen = await canaries.measure(members, siblings, database);
  await stop();
  return seen;
}

/** What a process of its own measures. */
const MEASURES = {
  postgres: () => measureCalls(true),
  sticky: () => measureCalls(true, { isSticky: true }),
  share: () => measureCalls(true, { share: SHARE }),
  "share-sticky": () => measureCalls(true, { share: SHARE, isSticky: true }),
  sqlite: () => measureCalls(false),
  sessions: () => measureCalls(true, { hasSessions: true }),
  contextforge: () => contextforge.measure(false),
  "contextforge-sessions": () => contextforge.measure(true),
  forwarding: measureForwarding,
  neighbours: measureNeighbours,
  canaries: measureCanaries,
};

/** Measures in a process of its own, on the processors for all but gateways. */
async function measured(what, replicas, tenants, active = ACTIVE_AT_MOST) {
  const last = availableParallelism() - 1;
  const of = ["--replicas", replicas, "--tenants", tenants, "--active", active, "--people", 1, "--stdio", 0];
  const words = ["--one", what, ...of, ...(last > 0 ? ["--pin", 0] : [])];
  const ours = ["--replicas", "--tenants", "--active", "--only"];
  const given = process.argv.slice(3).filter((one, place, all) => !ours.includes(one) && !ours.includes(all[place - 1]));
  const script = [process.execPath, "--no-warnings", process.argv[1], BINARY, ...words, ...given].map(String);
  const [program, ...rest] = last > 0 ? ["taskset", "-c", `1-${last}`, ...script] : script;
  const running = promisify(execFile)(program, rest, { maxBuffer: 1 << 24 });
  running.child.stderr?.pipe(process.stderr);
  return JSON.parse((await running).stdout.trim().split("\n").at(-1));
}

const median = (rows) => {
  const middle = percentile(rows.map(({ processor }) => processor.gateway), 0.5);
  return rows.find(({ processor }) => processor.gateway === middle);
};

/** The middle one of some rounds, by the processor time of a call. */
async function middle(what, replicas, tenants, active = undefined) {
  const rows = [];
  for (let round = 0; round < ROUNDS; round += 1) rows.push(await measured(what, replicas, tenants, active));
  return median(rows);
}

const list = (name, usual) => word(name, usual).split(",").map(Number);
const ms = (number) => `${number.toFixed(number < 100 ? 1 : 0)} ms`;

/** Prints a row of a table. */
function print(name, row, note = "") {
  const ofWorld = row.memory === undefined ? [] : [`${row.memory.toFixed(0)} KiB`, ms(row.first), `${(row.idle * 100).toFixed(1)} %`];
  const all = [`${row.processor.gateway} µs`, `${row.processor.database} µs`, row.perSecond.toFixed(0), ms(row.median), ms(row.most), ...ofWorld];
  console.log(`${name.padEnd(42)}${all.map((text) => text.padStart(11)).join("")}  ${note}`);
}

function printHead(title) {
  const names = ["gateway", "database", "calls/s", "median", "99 %", "memory", "first call", "idle"];
  console.log(`\n${title.padEnd(42)}${names.map((name) => name.padStart(11)).join("")}`);
}

const many = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;

/** What each further replica adds to what the first one can do, if each has a processor of its own. */
const added = (replicas, alone, { processor }) => ((replicas * alone) / processor.gateway - 1) / (replicas - 1);

async function compareReplicas() {
  printHead("on Postgres, processor time of a call");
  for (const tenants of list("tenants", "10,1000")) {
    let alone;
    for (const replicas of list("replicas", "1,2,3")) {
      const name = `${many(replicas, "replica")}, ${many(tenants, "tenant")}`;
      const row = await middle("postgres", replicas, tenants);
      if (replicas === 1) alone = row.processor.gateway;
      const note = (of) => (replicas > 1 && alone ? `each further one adds ${added(replicas, alone, of).toFixed(2)} of the first (goal 0.8)` : "");
      print(name, row, note(row));
      if (replicas === 1) continue;
      const sticky = await middle("sticky", replicas, tenants);
      print(`${name}, sticky`, sticky, note(sticky));
    }
  }
}

/** Calls in a second where each replica has its own part of a processor, which it uses up. */
async function compareShares() {
  printHead(`each with ${SHARE} of a processor of its own`);
  const tenants = list("tenants", "10")[0];
  let alone;
  for (const replicas of list("replicas", "1,2,3")) {
    for (const what of replicas === 1 ? ["share"] : ["share", "share-sticky"]) {
      const row = await middle(what, replicas, tenants);
      alone ??= row.perSecond;
      const each = (row.perSecond / alone - 1) / (replicas - 1);
      const note = replicas > 1 ? `each further one adds ${each.toFixed(2)} of the first (goal 0.8)` : "";
      print(`${many(replicas, "replica")}, ${many(tenants, "tenant")}${what === "share" ? "" : ", sticky"}`, row, note);
    }
  }
}

async function compareForwarding() {
  const { direct, forwarded } = await measured("forwarding", 2, 10);
  const [plain, front, home] = [direct.processor.home, forwarded.processor.front, forwarded.processor.home];
  console.log(`\na call at its home            ${plain} µs, median ${ms(direct.median)}
a call at another replica     ${front} µs there and ${home} µs at its home: ${((front + home) / plain).toFixed(2)} ×, median ${ms(forwarded.median)}`);
}

/** The same calls with few tenants and with many, of which as few call as before, and then many. */
async function compareTenants() {
  const [few, most] = list("tenants", "10,10000");
  for (const [what, database] of [["sqlite", "SQLite"], ["postgres", "Postgres"]]) {
    printHead(`one replica on ${database}`);
    let least;
    for (const [tenants, active] of [[few, few], [most, few], [most, Math.min(most, ACTIVE_AT_MOST)]]) {
      const row = await middle(what, 1, tenants, active);
      least ??= row.processor.gateway;
      const goal = active === few && tenants === most ? " (goal 1.1)" : "";
      print(`${many(tenants, "tenant")}, ${active} of which call`, row, `${(row.processor.gateway / least).toFixed(2)} ×${goal}`);
    }
  }
}

/** The rows beside ContextForge. With several rounds they take turns, so that what else the machine does reaches all of them. */
async function compareWithContextForge() {
  const why = await contextforge.missing();
  if (why) return console.log(`\nskipped: ContextForge: ${why}`);
  const names = { sessions: "Toolrack", contextforge: "ContextForge, without sessions", "contextforge-sessions": "ContextForge, with sessions" };
  const rows = Object.fromEntries(Object.keys(names).map((what) => [what, []]));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const what of Object.keys(names)) rows[what].push(await measured(what, 1, what === "sessions" ? 10 : 1));
  }
  printHead("beside ContextForge, clients of 2025-11-25");
  const ours = median(rows.sessions);
  print(names.sessions, ours);
  for (const what of ["contextforge", "contextforge-sessions"]) {
    const row = median(rows[what]);
    const [calls, processor] = [ours.perSecond / row.perSecond, row.processor.gateway / ours.processor.gateway];
    print(names[what], row, `Toolrack: ${calls.toFixed(1)} × the calls/s (goal 10), 1/${processor.toFixed(0)} of the processor time`);
  }
}

async function compareNeighbours() {
  const { alone, beside, loop, seconds } = await measured("neighbours", 1, 21);
  const rise = (beside.most / alone.most - 1) * 100;
  const rate = (count) => `${(count / seconds).toFixed(0)}`;
  const change = (of) => `${alone[of].toFixed(2)} → ${beside[of].toFixed(2)} ms`;
  console.log(`\na program of one tenant loops: ${rate(loop.results)} results/s and ${rate(loop.refusals)} refusals/s
calls of 20 others   median ${change("median")}, 99 % ${change("most")}: ${rise.toFixed(0)} % more (goal less than 10 %)`);
}

async function lookForCanaries() {
  const seen = await measured("canaries", Number(word("replicas", "3")), Number(word("tenants", "10000")));
  const words = Object.values(seen.seen).reduce((sum, one) => sum + one, 0);
  console.log(`\n${seen.calls} calls of ${seen.audit.tenants} tenants, ${seen.failed} failed (goal 0) ${seen.why}
in answers        ${seen.foreign} foreign bytes (goal 0), ${words} words of the asking tenant, ${seen.bytes} bytes
in the database   as each tenant: ${seen.own} own rows, ${seen.others} rows of others (goal 0), ${seen.words} rows with words of others (goal 0)
                  as administrator: ${seen.audit.rows} rows of audit logs, ${seen.audit.withWords} of them with words
${seen.finds}`);
  const isGood = [seen.failed, seen.foreign, seen.others, seen.words].every((count) => count === 0) && words > 0 && seen.own > 0;
  if (!isGood) process.exitCode = 1;
}

const PARTS = {
  replicas: compareReplicas,
  shares: compareShares,
  forwarding: compareForwarding,
  tenants: compareTenants,
  contextforge: compareWithContextForge,
  neighbours: compareNeighbours,
  canaries: lookForCanaries,
};

const one = word("one", "");
if (one === "") {
  for (const part of word("only", "replicas,forwarding,tenants,contextforge,neighbours").split(",")) await PARTS[part]();
} else {
  console.log(JSON.stringify(await MEASURES[one]()));
  agent.destroy();
  endHelpers();
}
rmSync(folder, { recursive: true, force: true });
process.exit();
