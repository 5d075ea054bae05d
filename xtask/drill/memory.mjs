// What a tenant and the world of a person cost, and what is left of them when they have been idle for their time.

import { IDLE, PEOPLE, TENANTS, each, sleep } from "./settings.mjs";
import { operators, people } from "./people.mjs";
import { asks, expects } from "./wire.mjs";

const WORLDS = TENANTS * PEOPLE;
/** What the issue allows for a person's world, in KiB. */
const MOST = { withShared: 192, without: 128 };
/** What may be left of each world once all have ended, in KiB: caches of the database. */
const MOST_LEFT = 1;

/** The first round fills caches. */
const ROUNDS = 3;

/** Begins all worlds and waits for their end, some times; returns whether they cost what they may. */
export async function measure(daemon, hasShared) {
  const now = async () => {
    await sleep(3_000);
    // Before the free memory is given back to the system.
    const rss = daemon.rss();
    return { rss, heap: daemon.heap(), trimmed: daemon.rss() };
  };
  const alone = await now();
  const rounds = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    await each(operators, 4, (who) => expects(200, asks(who, "GET", "/api/v1/answers")));
    const tenants = await now();
    await each(people, 4, (who) => expects(200, asks(who, "GET", "/api/v1/tools")));
    const worlds = await now();
    await sleep(IDLE * 1_000 + 5_000);
    rounds.push({ tenants, worlds, after: await now() });
  }
  const [first, before, last] = [rounds[0], rounds[ROUNDS - 2], rounds[ROUNDS - 1]];
  const cost = (more, less, of) => {
    const [heap, rss] = ["heap", "rss"].map((kind) => ((more[kind] - less[kind]) / of).toFixed(1));
    return `${heap} KiB allocated, ${rss} KiB of RSS`;
  };
  const whole = (when) => `${when.heap} KiB allocated, ${when.rss} KiB of RSS`;
  const most = hasShared ? MOST.withShared : MOST.without;
  console.log(`
${TENANTS} tenants with ${hasShared ? "one shared server over HTTP" : "no shared server"}, ${WORLDS} worlds of people without servers of their own
a tenant            ${cost(first.tenants, alone, TENANTS)}
a person's world    ${cost(first.worlds, first.tenants, WORLDS)} (goal ${most} KiB)
the daemon          ${whole(alone)} alone
with all worlds     ${whole(first.worlds)}
after their end     ${rounds.map(({ after }) => `${whole(after)}, ${after.trimmed} KiB once what is free is given back`).join(";\n                    ")}
left of each world  ${cost(last.after, before.after, WORLDS)} in round ${ROUNDS} (goal 0)`);
  const isSmall = (first.worlds.rss - first.tenants.rss) / WORLDS <= most;
  const isGone = (last.after.heap - before.after.heap) / WORLDS <= MOST_LEFT;
  return isSmall && isGone;
}
