// Gives each replica a part of a processor of its own, where Linux lets this script: what a replica can do then does not depend on what its
// siblings, the clients and the database take.

import { existsSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** In which time a process may use its part, in microseconds. With the usual 100 ms it would run, and then wait for most of that time. */
const PERIOD = 10_000;
const ROOT = "/sys/fs/cgroup";

/** Where groups are made, and the file with the limit: cgroups of version 2, or those of version 1. */
function files(quota) {
  if (existsSync(join(ROOT, "cgroup.controllers"))) return { root: ROOT, limits: { "cpu.max": `${quota} ${PERIOD}` } };
  return { root: join(ROOT, "cpu"), limits: { "cpu.cfs_period_us": `${PERIOD}`, "cpu.cfs_quota_us": `${quota}` } };
}

/** Lets each of these processes, and those that it starts, use at most `share` of one processor. Returns what removes the limits once the
 *  processes have ended. Throws if this user may not make groups. */
export function limit(pids, share) {
  const { root, limits } = files(Math.round(PERIOD * share));
  const groups = pids.map((pid) => join(root, `toolrack-scale-${pid}`));
  for (const [place, group] of groups.entries()) {
    mkdirSync(group);
    for (const [file, text] of Object.entries(limits)) writeFileSync(join(group, file), text);
    writeFileSync(join(group, "cgroup.procs"), `${pids[place]}`);
  }
  return () => groups.forEach((group) => rmdirSync(group));
}
