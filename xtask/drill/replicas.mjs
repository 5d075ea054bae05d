// Several daemons on one Postgres behind HAProxy. One after another is killed, or something else fails: is anything executed twice, or
// lost, or shown to the wrong person?
//
//     node replicas.mjs TOOLRACK [--seconds 600] [--replicas 3] [--kill-every 10] [--tenants 20] [--people 10] [--clients 200]
//                                [--stdio 10] [--signed 6] [--lifetime 15] [--pause 1000] [--how kill,…] [--frozen 15] [--away 30]
//                                [--slower-by 100] [--clocks 300] [--other TOOLRACK]
//
// Half of the clients are of 2026-07-28, half of 2025-11-25. They call tools and answer questions: in rounds, in the stream of a
// session, and over the API. Other members hold conversations. Tokens of a server expire after --lifetime seconds and are renewed.
//
// --how says what fails, each time the next one, every --kill-every seconds:
//
//     kill, term      a replica is killed, or ended with SIGTERM, which no plain call may notice; it is started again at once
//     freeze          a replica stands still for --frozen seconds
//     liar            a replica is killed, and a daemon with another key listens at its address to siblings
//     away, restart   the database stands still for --away seconds, or is ended and started again after this time
//     full            its disk is full for --away seconds (only root can have a disk for it)
//     failover        it is killed, and a standby with synchronous replication takes over
//     slow            each piece to or from the database takes --slower-by milliseconds longer, for --away seconds
//     cut-database    the network between a replica and the database is cut for --away seconds
//     cut-siblings    the network between a replica and its siblings is cut for --away seconds
//
// --clocks has the clocks of one replica and the next so many seconds apart (with libfaketime), and every second replica is the program
// that --other names.
//
// Fails when a call is executed twice, a word reaches another member, a client sees an error that no fault explains, or one that does not
// say what is wrong though a replica was there to say it, a session is gone though its replica lived, a question is answered twice, a
// token is renewed twice, a replica believes a liar, a tenant is not served again within half a minute, or an audit log does not verify.

import { setMaxListeners } from "node:events";
import { rmSync } from "node:fs";

import { canary, counts, found, people } from "./people.mjs";
import { endHelpers, freePort } from "./processes.mjs";
import { startBalancer } from "./replicas/balancer.mjs";
import { legacy, modern, readEvents, tally } from "./replicas/clients.mjs";
import { converse } from "./replicas/conversations.mjs";
import { Database, NEEDS_LINKS, WAYS_TO_FAIL, makeFaults } from "./replicas/faults.mjs";
import { kills } from "./replicas/kills.mjs";
import { makeLinks } from "./replicas/links.mjs";
import { Recovery } from "./replicas/recovery.mjs";
import { signIn } from "./replicas/renewals.mjs";
import { report } from "./replicas/report.mjs";
import { REPLICAS, homeOf, homesAt, makeSiblings, prepare } from "./replicas/siblings.mjs";
import { SECONDS, STDIO, TENANTS, each, folder, option, sleep } from "./settings.mjs";
import { agent, asks, setAddress } from "./wire.mjs";

const CLIENTS = option("clients", 200);
const KILL_EVERY = option("kill-every", 10) * 1_000;

const recovery = new Recovery();
const begun = performance.now();
const seconds = () => `${((performance.now() - begun) / 1000).toFixed(1)} s`;

/** Makes the token of each member. */
async function makeTokens(sibling) {
  await each(people, 4, async (who) => {
    const words = ["team", "token", who.name, "--tenant", `t${who.tenant}`, "--role", who.role, "--json"];
    who.token = JSON.parse(await sibling.command(words)).token;
  });
}

/** Waits until HAProxy sends requests to each replica. */
async function untilServed(who) {
  for (let inARow = 0, end = performance.now() + 30_000; inARow < 2 * REPLICAS; ) {
    const answer = await asks(who, "GET", "/api/v1/me").catch(() => ({ status: 0, text: "" }));
    inARow = answer.status === 200 ? inARow + 1 : 0;
    if (performance.now() > end) throw new Error(`the replicas do not serve: ${answer.status} ${answer.text}`);
    await sleep(50);
  }
}

/** Starts the servers of each tenant, four tenants at a time: it takes long if all start at once. */
async function startServers() {
  await each(people.filter(({ number }) => number === 0), 4, async (who) => {
    for (const tool of who.tenant < STDIO ? ["shared/echo", "local/echo"] : ["shared/echo"]) {
      const end = performance.now() + 60_000;
      const call = () => asks(who, "POST", "/api/v1/calls", { tool, arguments: { text: canary("arg", who) } });
      for (let answer; (answer = await call()).status !== 200; await sleep(200)) {
        if (performance.now() > end) throw new Error(`${tool} of t${who.tenant} does not start: ${answer.text}`);
      }
    }
  });
}

/** Has one fault after another, each at the next replica or at the database. Replicas that end are started again at once. */
async function failAll(siblings, database, faults, isOver) {
  for (let round = 0; !isOver(); round += 1) {
    await sleep(KILL_EVERY);
    if (isOver()) return;
    const sibling = siblings[round % siblings.length];
    const before = await homesAt(sibling.number, database);
    const kill = await faults[WAYS_TO_FAIL[round % WAYS_TO_FAIL.length]](sibling);
    const after = await homesAt(kill.replica, database);
    const noted = { ...kill, homes: new Set([...before, ...after]) };
    kills.push(noted);
    if (sibling.hasEnded) await sibling.start();
    await recovery.follow(noted);
    // A single replica counts as killed until HAProxy has noticed that it runs again.
    if (REPLICAS === 1) Object.assign(noted, { how: "kill", to: performance.now() + 2_000 });
  }
}

/** Runs all clients while it kills replicas. */
async function work(siblings, database, faults) {
  const over = new AbortController();
  setMaxListeners(0, over.signal);
  const isOver = Object.assign(() => over.signal.aborted, { signal: over.signal });
  const clients = Array.from({ length: CLIENTS }, (_, number) => {
    const who = people[number % people.length];
    return (number % 2 === 0 ? modern : legacy)(who, isOver);
  });
  clients.push(...people.filter(({ number }) => number === 1).map((who) => converse(who, isOver)));
  const streams = people.filter(({ number }) => number === 0).map((who) => readEvents(who, isOver));
  const killing = failAll(siblings, database, faults, isOver);
  for (let left = SECONDS; left > 0; left -= 15) {
    await sleep(Math.min(left, 15) * 1_000);
    const { modern: new_, legacy: old } = tally.calls;
    console.log(`${seconds()}: ${new_} + ${old} calls, ${kills.length} faults, ${counts.foreign} foreign bytes`);
  }
  over.abort();
  await killing;
  await Promise.all([...clients, ...streams]);
}

/** How many audit logs do not verify. */
async function brokenChains(sibling) {
  let broken = 0;
  await each(Array.from({ length: TENANTS }, (_, tenant) => tenant), 4, async (tenant) => {
    try {
      await sibling.command(["audit", "verify"], tenant);
    } catch (error) {
      broken += 1;
      found(`the audit log of t${tenant}: ${String(error.stdout)} ${String(error.stderr)}`.slice(0, 400));
    }
  });
  return broken;
}

const database = await new Database().start();
const port = await freePort();
setAddress(`127.0.0.1:${port}`);
const siblings = await makeSiblings();
const links = NEEDS_LINKS ? await makeLinks(siblings, () => ({ path: database.cluster.socket })) : undefined;
if (links) siblings.forEach((sibling) => (sibling.environment.PGPORT = `${links.portOf(sibling.number)}`));
await prepare(`http://127.0.0.1:${port}`, links ? "postgres://toolrack@127.0.0.1/toolrack" : database.cluster.url);
for (const sibling of siblings) await sibling.start();
console.log(`${REPLICAS} replicas run after ${seconds()}`);
await makeTokens(siblings[0]);
console.log(`${people.length} members have tokens after ${seconds()}`);
await signIn(siblings[0].environment, homeOf);
const balancer = await startBalancer(port, siblings.map(({ address }) => address));
await untilServed(people[0]);
await startServers();
console.log(`their servers run after ${seconds()}`);
const from = performance.now();
await work(siblings, database, makeFaults(siblings, database, links));
const duration = (performance.now() - from) / 1000;
agent.destroy();
await Promise.all(siblings.map((sibling) => sibling.stop()));
balancer.stop();
const isGood = report({ duration, clients: CLIENTS, chains: await brokenChains(siblings[0]), recovery });
await database.stop();
endHelpers();
rmSync(folder, { recursive: true, force: true });
process.exit(isGood ? 0 : 1);
