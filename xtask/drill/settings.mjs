// What the command line asks for.

import { mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";

const [binary, ...words] = process.argv.slice(2);
if (binary === undefined) throw new Error("the first argument is the program `toolrack`");
// Its processes have a working folder of their own.
export const BINARY = resolve(binary);

export const option = (/** @type {string} */ name, /** @type {number} */ fallback) => {
  const at = words.indexOf(`--${name}`);
  return at < 0 ? fallback : Number(words[at + 1]);
};

/** The option as it was typed. */
export const word = (/** @type {string} */ name, /** @type {string} */ fallback) => {
  const at = words.indexOf(`--${name}`);
  return at < 0 ? fallback : words[at + 1];
};

/** Whether only memory is measured. */
export const MEMORY = words.includes("--memory");
const script = basename(process.argv[1]);
/** Whether it is measured what several daemons can do. */
const IS_SCALE = script === "scale.mjs";
/** Whether several daemons are used, by another script. */
const HAS_REPLICAS = IS_SCALE || script === "replicas.mjs";
export const TENANTS = option("tenants", MEMORY ? 10 : HAS_REPLICAS ? 20 : 100);
/** People of each tenant. */
export const PEOPLE = option("people", MEMORY ? 50 : 10);
export const SECONDS = option("seconds", IS_SCALE ? 20 : 600);
export const AT_ONCE = option("at-once", 12);
/** Tenants whose shared server is a process of their own. */
export const STDIO = MEMORY ? 0 : option("stdio", 10);
/** Tenants with a person who signs in with a browser, and allows a client. */
export const GUESTS = MEMORY || HAS_REPLICAS ? 0 : Math.min(option("guests", 30), TENANTS);
/** The processors on which replicas run, as `taskset` names them; all if it is empty. */
export const PIN = word("pin", "");
/** How long worlds stay without a request while memory is measured. */
export const IDLE = option("idle", 60);

export const folder = mkdtempSync(join(tmpdir(), "toolrack-drill-"));
export const environment = {
  HOME: join(folder, "home"),
  TOOLRACK_HOME: join(folder, "toolrack"),
  PATH: process.env.PATH,
  TMPDIR: folder,
  DRILL_CLIENT_SECRET: "the secret of a client in a drill",
};
mkdirSync(environment.HOME, { recursive: true });

export const sleep = (/** @type {number} */ ms) => new Promise((over) => setTimeout(over, ms));

/** Does `work` for each, so many at a time. */
export async function each(all, atOnce, work) {
  const rest = [...all];
  const worker = async () => {
    for (let one; (one = rest.shift()) !== undefined; ) await work(one);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

/** The value below which a `part` of all is. */
export function percentile(all, part) {
  const sorted = [...all].sort((one, other) => one - other);
  return sorted[Math.min(all.length - 1, Math.floor(all.length * part))] ?? 0;
}
