// How long calls of other tenants take while a program of one tenant loops. The others call at their own pace, in turns with and without the
// loop beside them. All tenants have the quota of the guide.

import { spawn } from "node:child_process";
import { join } from "node:path";

import { canary } from "../people.mjs";
import { firstLine } from "../processes.mjs";
import { SECONDS, option, percentile, sleep } from "../settings.mjs";
import { call } from "./calls.mjs";

export const FILES = { limits: "[tenants.limits]\ncalls_per_minute = 600\ncalls_at_once = 64\n" };
/** How often calls are measured without the loop and with it. */
const TURNS = option("turns", 3);
/** The pause between two calls of a tenant, in milliseconds: half of what the quota allows. */
const PAUSE = 200;
/** How many calls the loop makes at once. */
const LOOPS = option("loops", 8);

/** Calls of each tenant at its pace. Their begins are spread, and a late answer delays none. */
async function paced(members, addressOf) {
  const [latencies, all] = [[], []];
  const from = performance.now();
  for (let round = 0; round < (SECONDS * 1_000) / PAUSE; round += 1) {
    for (const [place, who] of members.entries()) {
      const due = from + (round + place / members.length) * PAUSE;
      if (due > performance.now()) await sleep(due - performance.now());
      const begun = performance.now();
      const done = call({ address: addressOf(), token: who.token }, "mcp__shared__echo", canary("arg", who));
      all.push(done.then(() => latencies.push(performance.now() - begun)));
    }
  }
  await Promise.all(all);
  return latencies;
}

/** Measures the calls of `members` but the first one, whose program loops. */
export async function measure([looping, ...others], addressOf) {
  for (const who of [looping, ...others]) await call({ address: addressOf(), token: who.token }, "mcp__shared__echo", canary("arg", who));
  const [alone, beside] = [[], []];
  const answers = { results: 0, refusals: 0 };
  for (let turn = 0; turn < TURNS; turn += 1) {
    alone.push(...(await paced(others, addressOf)));
    const words = ["-n", "10", process.execPath, join(import.meta.dirname, "loop.mjs"), addressOf(), looping.token, `${LOOPS}`];
    const child = spawn("nice", words, { stdio: ["pipe", "pipe", "pipe"] });
    const printed = firstLine(child);
    await sleep(500);
    beside.push(...(await paced(others, addressOf)));
    child.stdin.end();
    const told = JSON.parse(await printed);
    for (const kind of Object.keys(answers)) answers[kind] += told[kind];
  }
  const of = (all) => ({ median: percentile(all, 0.5), most: percentile(all, 0.99), calls: all.length });
  return { alone: of(alone), beside: of(beside), loop: answers, seconds: TURNS * SECONDS };
}
