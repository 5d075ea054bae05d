// Whether all tenants are served again after a fault of the database or of the network, and how soon.

import { canary, found, people } from "../people.mjs";
import { sleep } from "../settings.mjs";
import { asks } from "../wire.mjs";
import { SIGNED } from "./renewals.mjs";
import { REPLICAS } from "./siblings.mjs";

/** How long it may take until all tenants are served again, in seconds. */
export const LONGEST_RECOVERY = 30;
export const OF_REPLICAS = ["kill", "term", "freeze", "liar"];

export class Recovery {
  /** The longest recovery, in seconds, and how many did not end in time. */
  longest = 0;
  never = 0;

  /** Waits until all tenants are served again after a fault, which lasts until then. */
  async follow(fault) {
    if (OF_REPLICAS.includes(fault.how)) return;
    const from = performance.now();
    const end = from + LONGEST_RECOVERY * 1_000;
    const last = await Promise.all(people.filter(({ number }) => number === 0).map((who) => untilServed(who, end)));
    const failed = last.filter((text) => text !== undefined);
    if (failed.length > 0) this.never += 1;
    for (const text of failed.slice(0, 3)) found(`${LONGEST_RECOVERY} s after ${fault.how}: ${text}`);
    fault.to = performance.now();
    this.longest = Math.max(this.longest, Math.round((fault.to - from) / 100) / 10);
  }
}

/** Calls a tool of a tenant until each replica has answered well, one after another. Returns the last error if that does not happen in
 *  time. */
async function untilServed(who, end) {
  let last = "";
  for (let inARow = 0; inARow < 2 * REPLICAS; ) {
    // The tokens of `signed` are in the database.
    const server = who.tenant < SIGNED && inARow % 2 === 1 ? "signed" : "shared";
    const body = { tool: `${server}/echo`, arguments: { text: canary("arg", who) } };
    const { status, text } = await asks(who, "POST", "/api/v1/calls", body).catch((error) => ({ status: 0, text: String(error) }));
    inARow = status === 200 ? inARow + 1 : 0;
    if (status !== 200) last = `${status} ${text}`.slice(0, 300);
    if (performance.now() > end) return `${who.name}: ${last || "the replicas are slow"}`;
    if (status !== 200) await sleep(200);
  }
  return undefined;
}
