// Many tenants and people at once: does anything of one reach another?
//
//     node drill.mjs TOOLRACK [--tenants 100] [--people 10] [--guests 30] [--seconds 600] [--at-once 12] [--stdio 10]
//     node drill.mjs TOOLRACK --memory [--tenants 10] [--people 50] [--idle 60]
//
// Each person has words of their own in the value that they give for a server, in arguments, in results and in prompts. All of them
// work at once, while tokens are revoked and renewed, people sign in and out, and roles, groups and rules change. Fails when a word
// or a token is seen where it may not be, when a change is not in force within a second, when a session is lost, and when a request
// fails that should not. With --memory it only measures what an idle world costs.

import assert from "node:assert/strict";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

import { change, gives, token } from "./changes.mjs";
import { prepare, start } from "./daemon.mjs";
import { visit, welcome } from "./guests.mjs";
import { measure } from "./memory.mjs";
import { allFinds, canary, counts, delays, found, guests, latencies, look, misplaced, officials, operators, people } from "./people.mjs";
import { endHelpers } from "./processes.mjs";
import { AT_ONCE, MEMORY, SECONDS, TENANTS, each, folder, percentile, sleep } from "./settings.mjs";
import { agent, asks, expects } from "./wire.mjs";
import { something } from "./work.mjs";

let begun = performance.now();
const seconds = () => ((performance.now() - begun) / 1000).toFixed(1);

/** Gives each person what their own server needs, and waits until it answers. */
async function settle() {
  await each(people, 4, (who) => expects(204, gives(who)));
  await each(people, 4, async (who) => {
    const end = performance.now() + 30_000;
    const call = { tool: "mine/echo", arguments: { text: canary("arg", who) } };
    for (let answer; (answer = await asks(who, "POST", "/api/v1/calls", call)).status !== 200; await sleep(50)) {
      assert.ok(performance.now() < end, answer.text);
    }
  });
}

/** Looks at all events of the tenants, and at those of some people, until the daemon ends. A stream ends with each change of the rules
 *  or of its member, and begins anew. */
function listen(isOver) {
  const listeners = [...operators, ...people.filter(({ number }) => number === 0)];
  return listeners.map(async (who) => {
    let last = "";
    let rest = "";
    const onData = (piece) => {
      // A word may be cut between two pieces.
      const text = rest + piece;
      const end = text.lastIndexOf("\n") + 1;
      look(who, "events", text.slice(0, end));
      last = [...text.slice(0, end).matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? last;
      rest = text.slice(end);
    };
    while (!isOver()) {
      const headers = { accept: "text/event-stream", ...(last ? { "last-event-id": last } : {}) };
      const answer = await asks(who, "GET", "/api/v1/events", undefined, headers, onData).catch(() => ({ status: 0 }));
      const mayFail = isOver() || who.role === "user";
      if (answer.status !== 200 && !mayFail) found(`${who.name}: the events: ${answer.status}`);
      await sleep(100);
    }
  });
}

/** Has all work, while everything changes; returns the event streams, which end with the daemon. */
async function work(daemon, address) {
  let isOver = false;
  const repeated = async (pause, action) => {
    for (let round = 0; !isOver; round += 1) {
      await action(round);
      if (pause) await sleep(pause);
    }
  };
  const streams = listen(() => isOver);
  const all = Array.from({ length: AT_ONCE }, () => repeated(0, something));
  all.push(repeated(200, change));
  if (guests.length > 0) all.push(repeated(200, (round) => visit(round, address)));
  for (let left = SECONDS; left > 0; left -= 15) {
    await sleep(Math.min(left, 15) * 1_000);
    console.log(`${seconds()} s: ${counts.requests} requests, ${counts.foreign} foreign bytes, ${counts.unexpected} unexpected, ${daemon.rss()} KiB`);
  }
  isOver = true;
  await Promise.all(all);
  return streams;
}

/** How many words are on the disk where they may not be. */
function onDisk() {
  let words = 0;
  for (let tenant = 0; tenant < TENANTS; tenant += 1) {
    for (const suffix of ["", "-wal"]) {
      try {
        words += misplaced(readFileSync(join(folder, "tenants", `t${tenant}`, `toolrack.db${suffix}`), "latin1"), tenant);
      } catch {
        // There is no such file.
      }
    }
  }
  return words;
}

const at = (all, part) => percentile(all, part).toFixed(0);

function report(duration, memory, words) {
  const changes = Object.entries(delays).map(
    ([what, all]) =>
      `${what.padEnd(19)} ${all.length}: median ${at(all, 0.5)} ms, 99 % ${at(all, 0.99)} ms, longest ${at(all, 1)} ms (goal 1,000 ms)\n`,
  );
  console.log(`
${TENANTS} tenants, ${people.length} people, ${guests.length} guests, ${AT_ONCE} at once for ${duration.toFixed(0)} s, event streams of ${operators.length} operators and as many people
requests            ${counts.requests} (${(counts.requests / duration).toFixed(0)}/s, ${counts.calls} calls), ${(counts.bytes / 1e6).toFixed(1)} MB looked at
statuses            ${JSON.stringify(counts.statuses)}
words seen          ${JSON.stringify(counts.seen)}
latency             median ${at(latencies, 0.5)} ms, 99 % ${at(latencies, 0.99)} ms, longest ${at(latencies, 1)} ms
foreign bytes       ${counts.foreign} (goal 0)
words on the disk   ${words} (goal 0)
unexpected errors   ${counts.unexpected} (goal 0)
${changes.join("")}renewals of tokens  ${counts.renewals}, ${counts.lostSessions} sessions lost (goal 0)
memory at the end   ${memory.end} KiB, ${memory.before} KiB before
${allFinds()}`);
  const longest = Math.max(0, ...Object.values(delays).flat());
  const isSeen = ["arg", "res", "pro", "own"].every((kind) => counts.seen[kind] > 0);
  return isSeen && counts.foreign + words + counts.unexpected + counts.lostSessions === 0 && longest < 1_000;
}

async function drill(address, daemon) {
  await each(people, 4, (who) => expects(200, asks(who, "GET", "/api/v1/tools")));
  console.log(`${people.length} worlds have begun after ${seconds()} s`);
  await settle();
  console.log(`their own servers run after ${seconds()} s`);
  await welcome(address);
  console.log(`${guests.length} guests have signed in and allowed a client after ${seconds()} s`);
  await sleep(1_000);
  const memory = { before: daemon.rss(), end: 0 };
  begun = performance.now();
  const streams = await work(daemon, address);
  memory.end = daemon.rss();
  const duration = (performance.now() - begun) / 1000;
  agent.destroy();
  await daemon.stop();
  await Promise.all(streams);
  return report(duration, memory, onDisk());
}

/** Starts a daemon whose tenants have `hasShared`, and does `action` with it. */
async function withDaemon(hasShared, action) {
  const address = await prepare(hasShared);
  begun = performance.now();
  await each([...people, ...officials], 2, async (who) => Object.assign(who, await token(who)));
  console.log(`${people.length} people and ${officials.length} officials of ${TENANTS} tenants have tokens after ${seconds()} s`);
  const daemon = await start(address);
  await sleep(2_000);
  begun = performance.now();
  const isGood = await action(address, daemon);
  if (MEMORY) await daemon.stop();
  endHelpers();
  return isGood;
}

let isGood = true;
if (MEMORY) {
  for (const hasShared of [false, true]) isGood = (await withDaemon(hasShared, (_, daemon) => measure(daemon, hasShared))) && isGood;
} else {
  isGood = await withDaemon(true, drill);
}
rmSync(folder, { recursive: true, force: true });
process.exit(isGood ? 0 : 1);
