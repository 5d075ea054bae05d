// A server of some tenants that wants access tokens, which soon expire. Each is renewed once, by whichever replica.

import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { found } from "../people.mjs";
import { helperWith } from "../processes.mjs";
import { BINARY, TENANTS, each, folder, option } from "../settings.mjs";
import { kills } from "./kills.mjs";

/** How many tenants have such a server. */
export const SIGNED = Math.min(option("signed", 6), TENANTS);
/** How long a token counts, in seconds. */
const LIFETIME = option("lifetime", 15);
const RENEWED = join(folder, "renewed");
/** How long signing in may take, in milliseconds. */
const LONGEST = 30_000;
/** A replica that dies this soon after a renewal may not have stored it, in milliseconds. */
const STORING = 1_000;

/** Starts the server, in front of the one at `url`. Returns its address. */
export const startIssuer = (url) => helperWith({ RENEWED }, join(import.meta.dirname, "issuer.mjs"), url, `${LIFETIME}`);

/** Signs the tenants in, with the key of the replicas. */
export async function signIn(environment, homeOf) {
  const tenants = Array.from({ length: SIGNED }, (_, tenant) => tenant);
  await each(tenants, 2, (tenant) => login({ ...environment, TOOLRACK_HOME: homeOf(tenant) }));
}

/** Signs one tenant in, with a browser that allows everything. */
function login(env) {
  const child = spawn(BINARY, ["login", "signed", "--no-browser"], { env, cwd: folder, stdio: ["pipe", "pipe", "pipe"] });
  const late = setTimeout(() => child.kill("SIGKILL"), LONGEST);
  return new Promise((signedIn, failed) => {
    let output = "";
    let isAsked = false;
    const read = (piece) => {
      output += piece;
      const [address] = /http:\/\/\S+\/authorize\?\S+(?=\s)/.exec(output) ?? [];
      if (!address || isAsked) return;
      isAsked = true;
      fetch(address).catch(failed);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", (code) => {
      clearTimeout(late);
      if (code === 0) signedIn(undefined);
      else failed(new Error(`toolrack login ended with ${code}: ${output}`));
    });
  });
}

/** How many tokens were renewed, and how many of them more than once though no replica died meanwhile. */
export function countRenewals() {
  const lines = existsSync(RENEWED) ? readFileSync(RENEWED, "utf8").split("\n").filter(Boolean) : [];
  const times = new Map();
  for (const line of lines) {
    const [family, number, time] = line.split(" ");
    const of = times.get(`${family} ${number}`) ?? times.set(`${family} ${number}`, []).get(`${family} ${number}`);
    of.push(Number(time) - performance.timeOrigin);
  }
  const again = [...times].filter(([, of]) => of.length > 1);
  const twice = again.filter(([, of]) => of.length > 2 || !kills.some(({ from }) => from >= of[0] - STORING && from <= of[0] + STORING));
  for (const [token, of] of twice.slice(0, 5)) {
    found(`the token ${token} was renewed again ${of.slice(1).map((at) => (at - of[0]).toFixed(0)).join(", ")} ms after the first time`);
  }
  return { all: times.size, again: again.length, twice: twice.length };
}
