// What fails in the drill: replicas, their database, and the network between them. Each fault says whom it hits, and from when to when.

import { option, sleep, word } from "../settings.mjs";
import { Cluster } from "./cluster.mjs";
import { lie } from "./liar.mjs";

/** The faults, one after another. */
export const WAYS_TO_FAIL = word("how", "kill").split(",");
/** How long the database is away, full or slow, and how long a network is cut, in milliseconds. */
const AWAY = option("away", 30) * 1_000;
/** How much longer each piece takes to and from a slow database, in milliseconds. */
const SLOWER_BY = option("slower-by", 100);
/** How long it takes until a standby is promoted, in milliseconds. */
const NOTICING = 2_000;
/** The size of the disk of each cluster, if it is full at times, in bytes: for the audit logs of ten minutes, and the copy of a liar. */
const DISK = WAYS_TO_FAIL.includes("full") ? 1 << 30 : undefined;
/** The faults that need a proxy. */
const OF_NETWORK = ["slow", "cut-database", "cut-siblings", "failover"];
export const NEEDS_LINKS = WAYS_TO_FAIL.some((how) => OF_NETWORK.includes(how));

/** The database, which moves from one cluster to another when a standby takes over. */
export class Database {
  cluster = new Cluster(DISK).create();

  async start() {
    await this.cluster.start();
    return this;
  }

  rows(sql) {
    return this.cluster.rows(sql);
  }

  /** Stops all its processes for some seconds. */
  async away() {
    this.cluster.freeze();
    await sleep(AWAY);
    this.cluster.thaw();
  }

  /** Ends it, and starts it again after some seconds. */
  async restart() {
    await this.cluster.end();
    await sleep(AWAY);
    await this.cluster.start();
  }

  /** Fills its disk for some seconds. It is started again if it has ended. */
  async full() {
    const free = this.cluster.fill();
    await sleep(AWAY);
    free();
    if (this.cluster.hasEnded) await this.cluster.start();
  }

  /** Kills it, and promotes a standby that has all its commits. */
  async failover() {
    const before = this.cluster;
    const standby = await new Cluster(DISK).follow(before);
    const from = performance.now();
    await before.end();
    await sleep(NOTICING);
    await standby.promote();
    this.cluster = standby;
    await before.remove();
    return from;
  }

  stop() {
    return this.cluster.remove();
  }
}

/** Has all bytes on `links` wait for some seconds. */
async function cut(links) {
  links.forEach((link) => link.cut());
  await sleep(AWAY);
  links.forEach((link) => link.mend());
}

async function slow(links) {
  links.forEach((link) => (link.delay = SLOWER_BY));
  await sleep(AWAY);
  links.forEach((link) => (link.delay = 0));
}

/** All faults, by name. Each returns which replica fails, or none when it hits all of them. */
export function makeFaults(siblings, database, links) {
  const ofAll = (how, act) => async () => {
    const begun = performance.now();
    const from = (await act()) ?? begun;
    return { how, replica: undefined, from, to: performance.now() };
  };
  const ofOne = (how, act) => async ({ number }) => {
    const from = performance.now();
    await act(number);
    return { how, replica: number, from, to: performance.now() };
  };
  return {
    kill: (sibling) => sibling.kill(),
    term: (sibling) => sibling.term(),
    freeze: (sibling) => sibling.freeze(),
    liar: (sibling) => lie(sibling, siblings, database),
    away: ofAll("away", () => database.away()),
    restart: ofAll("restart", () => database.restart()),
    full: ofAll("full", () => database.full()),
    failover: ofAll("failover", () => database.failover()),
    slow: ofAll("slow", () => slow(links.toDatabase())),
    "cut-database": ofOne("cut-database", (number) => cut(links.toDatabase(number))),
    "cut-siblings": ofOne("cut-siblings", (number) => cut(links.around(number))),
  };
}
