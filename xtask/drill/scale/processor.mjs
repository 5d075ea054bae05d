// What processes take: time of the processor, and memory.

import { readFileSync, readdirSync } from "node:fs";

/** Ticks of the clock in which Linux counts the time of processes, in a second. */
const TICKS = 100;

/** The fields of `/proc/PID/stat` after the name, the first of which is the state; undefined if the process is gone. */
function fieldsOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  } catch {
    return undefined;
  }
}

/** `pid` and the processes that descend from it. */
function family(pid) {
  const parents = new Map();
  for (const one of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) parents.set(Number(one), Number(fieldsOf(one)?.[1]));
  const all = [pid];
  for (const one of all) all.push(...[...parents].filter(([, parent]) => parent === one).map(([child]) => child));
  return all;
}

/** Seconds of the processor that these processes and all that descend from them have taken, also those that have ended. */
export function taken(pids) {
  const seconds = pids.flatMap(family).map((pid) => {
    const [user, system, ofEnded, systemOfEnded] = (fieldsOf(pid) ?? []).slice(11, 15).map(Number);
    return user === undefined ? 0 : (user + system + ofEnded + systemOfEnded) / TICKS;
  });
  return seconds.reduce((sum, one) => sum + one, 0);
}

/** Resident memory of these processes in KiB. */
export const memory = (pids) =>
  pids
    .map((pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]))
    .reduce((sum, one) => sum + one, 0);
