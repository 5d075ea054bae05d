// The processes of a drill: the daemon, a server over HTTP for all tenants, and the provider that signs guests in.

import { execFile, execFileSync, spawn } from "node:child_process";
import { closeSync, constants, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, readSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

import { lookAtLog, own } from "./people.mjs";
import { firstLine, freePort, helper } from "./processes.mjs";
import { BINARY, GUESTS, IDLE, MEMORY, STDIO, TENANTS, environment, folder } from "./settings.mjs";
import { setAddress } from "./wire.mjs";

const run = promisify(execFile);
/** The rules of a tenant, and those that come and go. */
export const RULES = "# no rules\n";
export const BARRED = '[policy]\ndeny = ["shared/barred"]\n';
export const rulesOf = (tenant) => join(folder, "tenants", `t${tenant}`, "toolrack.toml");

export const command = async (...given) => (await run(BINARY, given, { env: environment, cwd: folder })).stdout;

/** Writes the files of the tenants, with or without servers that all members share, and starts what they need. */
export async function prepare(hasShared) {
  const echo = join(import.meta.dirname, "echo.mjs");
  const url = await helper(echo);
  for (let tenant = 0; tenant < TENANTS; tenant += 1) {
    const headers = { "X-Own": own(tenant) };
    const process_ = { command: process.execPath, args: [echo, "--stdio"], env: { OWN: own(tenant) } };
    const shared = tenant < STDIO ? process_ : { url, headers };
    // Where memory is measured, no person has it. It is why each person has a world.
    const of = MEMORY ? { for: ["group:without-people"] } : {};
    const mine = { url, headers: { "X-Own": "${user:CANARY}" }, ...of };
    const grouped = { url, headers, for: ["group:drill"] };
    const servers = hasShared ? { shared, mine, ...(MEMORY ? {} : { grouped }) } : { mine };
    mkdirSync(join(folder, "tenants", `t${tenant}`), { recursive: true });
    writeFileSync(join(folder, "tenants", `t${tenant}`, "mcp.json"), JSON.stringify({ mcpServers: servers }));
    writeFileSync(rulesOf(tenant), RULES);
  }
  const port = await freePort();
  const origin = `http://127.0.0.1:${port}`;
  let signIn = "";
  if (GUESTS > 0) {
    const script = join(import.meta.dirname, "../../.cache/provider/provider.mjs");
    if (!existsSync(script)) throw new Error(`${script} is not there: run \`cargo xtask install\`, or say --guests 0`);
    const issuer = await helper(script, environment.DRILL_CLIENT_SECRET, `${origin}/sign-in/back`);
    signIn = `[sign_in]\nissuer = "${issuer}"\nclient_id = "toolrack"\nclient_secret = "\${DRILL_CLIENT_SECRET}"\n`;
  }
  const tenants = Array.from({ length: TENANTS }, (_, tenant) => {
    return `[[tenants]]\nid = "t${tenant}"\nmembers = ["*@t${tenant}.example"]\n`;
  });
  writeFileSync(join(folder, "team.toml"), `url = "${origin}"\n${signIn}${tenants.join("")}`);
  return `127.0.0.1:${port}`;
}

/** Starts the daemon. */
export async function start(listen) {
  const idle = MEMORY ? ["--agent-idle", `${IDLE}s`] : [];
  const words = ["serve", "--no-open", "--json", "--with-parent", "--team", join(folder, "team.toml"), "--allow", "*"];
  const heap = MEMORY ? heapPipes() : null;
  const env = heap ? { ...environment, ...heap.env } : environment;
  const child = spawn(BINARY, [...words, ...idle, "--listen", listen], { cwd: folder, env, stdio: ["pipe", "pipe", "pipe"] });
  setAddress(JSON.parse(await firstLine(child)).address);
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (piece) => lookAtLog("the log of the daemon", String(piece)));
  return {
    /** The memory of its process, in KiB. */
    rss: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1]),
    /** What it has allocated, in KiB, after it gave back to the system what is free. */
    heap: () => heap?.ask() ?? Number.NaN,
    stop: async () => {
      const ended = new Promise((over) => child.once("exit", over));
      child.kill("SIGTERM");
      await ended;
      heap?.close();
    },
  };
}

/** Has the daemon load `heap.c`, and asks that. */
function heapPipes() {
  const place = mkdtempSync(join(folder, "heap-"));
  const [library, asked, told] = ["heap.so", "asked", "told"].map((name) => join(place, name));
  execFileSync("cc", ["-shared", "-fPIC", "-O1", "-o", library, join(import.meta.dirname, "heap.c"), "-lpthread"]);
  execFileSync("mkfifo", [asked, told]);
  const [ask, tell] = [asked, told].map((pipe) => openSync(pipe, constants.O_RDWR));
  return {
    env: { LD_PRELOAD: library, HEAP_ASKED: asked, HEAP_TOLD: told },
    ask() {
      writeSync(ask, "?");
      const line = Buffer.alloc(64);
      return Math.round(Number(line.toString("latin1", 0, readSync(tell, line))) / 1024);
    },
    close: () => [ask, tell].forEach((pipe) => closeSync(pipe)),
  };
}
