// The replicas: each is a daemon with its own TOOLRACK_HOME, as on its own machine. All have one team file and the same files of
// tenants.

import { execFile, spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

import { found, lookAtLog, own } from "../people.mjs";
import { firstLine, freePort, helper, helperWith } from "../processes.mjs";
import { BINARY, PIN, STDIO, TENANTS, environment, folder, option, sleep, word } from "../settings.mjs";
import { SIGNED, startIssuer } from "./renewals.mjs";

export const REPLICAS = option("replicas", 3);
/** How long a replica is frozen, in milliseconds, and how long it may take to notice when it runs again. */
const FROZEN = option("frozen", 15) * 1_000;
const WAKING = 2_000;
/** How long a replica serves on after a SIGTERM, until HAProxy knows. */
const DRAIN = "3s";
/** How long a replica may take to end after a SIGTERM, in milliseconds. */
const ENDING = 30_000;

/** The program of every second replica: another version. */
const OTHER = resolve(word("other", BINARY));
/** How far the clocks of one replica and the next are apart, in seconds. */
const CLOCKS = option("clocks", 0);
const LIBFAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/** Variables that set the clock of a replica. The clock that measures times stays as it is. */
function clockOf(number) {
  const seconds = (number - 1) * CLOCKS;
  if (!seconds) return {};
  if (!existsSync(LIBFAKETIME)) throw new Error(`${LIBFAKETIME} is not there: install the package \`libfaketime\``);
  return { LD_PRELOAD: LIBFAKETIME, FAKETIME: `${seconds > 0 ? "+" : ""}${seconds}s`, DONT_FAKE_MONOTONIC: "1" };
}

const POLICY = '[policy]\nallow = ["*/echo"]\nconfirm = ["*/asked"]\n';

/** The file into which servers write the text of each call that they execute. */
export const EXECUTED = join(folder, "executed");
export const homeOf = (tenant) => join(folder, "tenants", `t${tenant}`);

/** Writes the files of a team with one server over HTTP for each tenant, and no more. Without a `database` the team uses SQLite. `limits` are
 *  those of each tenant in the file of the team, and `settings` more lines of the tenant's own file. */
export async function prepareSmall(database, { limits = "", settings = "" } = {}) {
  const url = await helper(join(import.meta.dirname, "../echo.mjs"));
  for (let tenant = 0; tenant < TENANTS; tenant += 1) {
    mkdirSync(homeOf(tenant), { recursive: true });
    const servers = { shared: { url, headers: { "X-Own": own(tenant) } } };
    writeFileSync(join(homeOf(tenant), "mcp.json"), JSON.stringify({ mcpServers: servers }));
    writeFileSync(join(homeOf(tenant), "toolrack.toml"), `${POLICY}${settings}`);
  }
  const tenants = Array.from({ length: TENANTS }, (_, tenant) => `[[tenants]]\nid = "t${tenant}"\n${limits}`);
  const store = database ? `[store]\nurl = "${database}"\n` : "";
  writeFileSync(join(folder, "team.toml"), `url = "http://127.0.0.1:1"\n${store}${tenants.join("")}`);
}

/** Writes the files of the team, which members reach at `origin`. */
export const prepare = (origin, database) => writeTeam(folder, origin, database, EXECUTED);

/** Writes the files of a team and its tenants into `home`. Servers write each call into `executed`. Returns the team file. */
export async function writeTeam(home, origin, database, executed, settings = "") {
  const echo = join(import.meta.dirname, "../echo.mjs");
  const url = await helperWith({ EXECUTED: executed }, echo);
  const signed = await startIssuer(url);
  const model = await helper(join(import.meta.dirname, "model.mjs"));
  for (let tenant = 0; tenant < TENANTS; tenant += 1) {
    const shared = { url, headers: { "X-Own": own(tenant) } };
    const local = { command: process.execPath, args: [echo, "--stdio"], env: { OWN: own(tenant), EXECUTED: executed } };
    const ofTenant = join(home, "tenants", `t${tenant}`);
    mkdirSync(ofTenant, { recursive: true });
    const servers = { shared, ...(tenant < STDIO && { local }), ...(tenant < SIGNED && { signed: { ...shared, url: signed } }) };
    writeFileSync(join(ofTenant, "mcp.json"), JSON.stringify({ mcpServers: servers }));
    writeFileSync(join(ofTenant, "toolrack.toml"), `${POLICY}[model]\nname = "ollama/drill"\nbase_url = "${model}"\n`);
  }
  const tenants = Array.from({ length: TENANTS }, (_, tenant) => `[[tenants]]\nid = "t${tenant}"\n`);
  const file = join(home, "team.toml");
  writeFileSync(file, `url = "${origin}"\n[store]\nurl = "${database}"\n${settings}${tenants.join("")}`);
  return file;
}

/** One replica, which is killed and started again. */
export class Sibling {
  constructor(number, port, siblingPort, teamFile = join(folder, "team.toml")) {
    this.number = number;
    this.teamFile = teamFile;
    this.binary = number % 2 === 1 ? OTHER : BINARY;
    this.address = `127.0.0.1:${port}`;
    this.siblingAddress = `127.0.0.1:${siblingPort}`;
    this.isMeantToEnd = false;
    this.starts = 0;
    this.environment = {
      ...environment,
      TOOLRACK_HOME: join(folder, `r${number}`),
      TOOLRACK_SECRET_KEY: "5ec2e7".padEnd(64, "0"),
      ...clockOf(number),
    };
  }

  get hasEnded() {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Starts it, and returns when it says that it listens. */
  async start() {
    this.isMeantToEnd = false;
    this.starts += 1;
    const words = ["serve", "--no-open", "--json", "--with-parent", "--team", this.teamFile, "--listen", this.address];
    const asReplica = REPLICAS > 1 ? ["--replica", this.siblingAddress, "--drain", DRAIN] : [];
    const [program, ...before] = PIN ? ["taskset", "-c", PIN, this.binary] : [this.binary];
    const child = spawn(program, [...before, ...words, ...asReplica], { cwd: folder, env: this.environment, stdio: ["pipe", "pipe", "pipe"] });
    this.child = child;
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (piece) => {
        output = `${output}${piece}`.slice(-2_000);
        if (String(piece).includes("could not write its heartbeat in time")) ends.lateHeartbeats += 1;
        lookAtLog("the log of a replica", String(piece));
      });
    }
    child.stdin.on("error", () => undefined);
    this.ended = new Promise((over) =>
      child.once("exit", (code, signal) => {
        this.endedAt = performance.now();
        if (!this.isMeantToEnd) found(`the replica ${this.number} ended by itself (${code ?? signal}): ${output}`);
        if (!this.isMeantToEnd) ends.unexpected += 1;
        over(undefined);
      }),
    );
    await firstLine(child);
  }

  /** Kills it. Returns how it ended and when, as `term` and `freeze` do. */
  async kill() {
    this.isMeantToEnd = true;
    const from = performance.now();
    this.child.kill("SIGKILL");
    await this.ended;
    return { replica: this.number, how: "kill", from, to: this.endedAt };
  }

  /** Ends it with SIGTERM, and waits for its end. */
  async term() {
    const from = performance.now();
    await this.stop();
    return { replica: this.number, how: "term", from, to: this.endedAt };
  }

  /** Stops its process for some seconds. */
  async freeze() {
    const from = performance.now();
    this.child.kill("SIGSTOP");
    await sleep(FROZEN);
    this.child.kill("SIGCONT");
    return { replica: this.number, how: "freeze", from, to: performance.now() + WAKING };
  }

  async stop() {
    this.isMeantToEnd = true;
    const late = setTimeout(() => {
      found(`the replica ${this.number} has not ended ${ENDING / 1000} s after a SIGTERM`);
      ends.late += 1;
      this.child.kill("SIGKILL");
    }, ENDING);
    this.child.kill("SIGTERM");
    await this.ended;
    clearTimeout(late);
  }

  /** Runs a command on its machine, or in the folder of `tenant`, and returns what it prints. */
  async command(words, tenant = undefined) {
    const env = tenant === undefined ? this.environment : { ...this.environment, TOOLRACK_HOME: homeOf(tenant) };
    return (await promisify(execFile)(this.binary, words, { env, cwd: folder })).stdout;
  }
}

/** How many replicas ended without a signal, how many did not end in time after a SIGTERM, and how many heartbeats were late. Late
 *  heartbeats, and calls that fail because of them, mean that the machine is too slow for so many clients. */
export const ends = { unexpected: 0, late: 0, lateHeartbeats: 0 };

/** At which address each replica is reached by its siblings. */
let addresses = /** @type {string[]} */ ([]);

export async function makeSiblings() {
  const all = [];
  for (let number = 0; number < REPLICAS; number += 1) all.push(new Sibling(number, await freePort(), await freePort()));
  addresses = all.map(({ siblingAddress }) => siblingAddress);
  return all;
}

/** The tenants whose home is at the replica `number` now; of all replicas if there is no number. */
export async function homesAt(number, database) {
  if (REPLICAS === 1 || number === undefined) return Array.from({ length: TENANTS }, (_, tenant) => tenant);
  const rows = await database.rows(
    `SELECT h.tenant FROM team_homes h JOIN team_replicas r ON r.id = h.replica WHERE r.address = '${addresses[number]}'`,
  );
  return rows.map(([tenant]) => Number(tenant.slice(1)));
}
