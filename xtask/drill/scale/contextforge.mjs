// ContextForge (`mcp-contextforge-gateway` from PyPI) with Postgres and Redis, as its own compose file sets it up for measurements of
// load: caches on, and neither audit log, nor limits, nor plugins. One administrator calls one server, so that its caches always hit.

import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

import { freePort, helper, untilPrinted } from "../processes.mjs";
import { AT_ONCE, PIN, SECONDS, folder, option, sleep } from "../settings.mjs";
import { Cluster } from "../replicas/cluster.mjs";
import { begin, load } from "./calls.mjs";

const VENV = join(import.meta.dirname, "../../../.cache/bench/contextforge");
const OWNER = "admin@example.com";
/** How long it may take to start, in milliseconds: it makes its tables. */
const STARTING = 180_000;
/** Processes of the gateway. More than one for a processor only makes it slower. */
const WORKERS = option("workers", 1);

/** Why it cannot be measured here; undefined if it can. */
export async function missing() {
  if (!existsSync(join(VENV, "installed"))) return "the packages of bench/peers/contextforge.txt are not there (`cargo xtask bench teams`)";
  const runs = await promisify(execFile)("redis-server", ["--version"]).catch(() => undefined);
  return runs ? undefined : "there is no redis-server (`cargo xtask bench teams`, as root on Debian)";
}

const secret = () => randomBytes(40).toString("base64url");

/** The settings of its compose file. */
function settings(database, redis, hasSessions) {
  const off = ["STRUCTURED_LOGGING_DATABASE", "AUDIT_TRAIL", "SECURITY_LOGGING", "COMPRESSION", "CORRELATION_ID", "OBSERVABILITY", "PLUGINS", "LLMCHAT", "MCPGATEWAY_UI", "MCPGATEWAY_ADMIN_API", "RATE_LIMITING", "PASSWORD_CHANGE_ENFORCEMENT", "SSRF_PROTECTION"];
  return {
    PATH: process.env.PATH,
    HOME: folder,
    DATABASE_URL: `postgresql+psycopg://toolrack@/toolrack?host=${database.folder}`,
    DB_POOL_CLASS: "queue",
    DB_POOL_SIZE: "20",
    CACHE_TYPE: "redis",
    REDIS_URL: `unix://${redis}`,
    REDIS_PARSER: "hiredis",
    TRANSPORT_TYPE: "streamablehttp",
    AUTH_CACHE_ENABLED: "true",
    AUTH_CACHE_BATCH_QUERIES: "true",
    REGISTRY_CACHE_ENABLED: "true",
    USE_STATEFUL_SESSIONS: `${hasSessions}`,
    MCPGATEWAY_SESSION_AFFINITY_ENABLED: `${hasSessions}`,
    JWT_SECRET_KEY: secret(),
    AUTH_ENCRYPTION_SECRET: secret(),
    PLATFORM_ADMIN_EMAIL: OWNER,
    PLATFORM_ADMIN_PASSWORD: `Aa1-${secret()}`,
    DEFAULT_USER_PASSWORD: `Aa1-${secret()}`,
    TOOL_RATE_LIMIT: "60000",
    LOG_LEVEL: "ERROR",
    DISABLE_ACCESS_LOG: "true",
    ...Object.fromEntries(off.map((name) => [`${name}_ENABLED`, "false"])),
  };
}

/** Starts Redis on a socket in the folder. */
async function startRedis(socket) {
  const words = ["--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", folder];
  const child = spawn("setpriv", ["--pdeathsig", "KILL", "redis-server", ...words], { stdio: ["ignore", "pipe", "ignore"] });
  await untilPrinted(child, child.stdout, "ready to accept connections");
  return child;
}

/** Sends a request to its API. */
async function api(address, token, method, path, body) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const answer = await fetch(`http://${address}${path}`, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${(await answer.text()).slice(0, 300)}`);
  return answer.json();
}

/** Waits until it answers. */
async function untilServed(address, child) {
  for (const end = performance.now() + STARTING; performance.now() < end; await sleep(250)) {
    if (child.exitCode !== null) throw new Error(`ContextForge ended with ${child.exitCode}`);
    const answer = await fetch(`http://${address}/health`).catch(() => undefined);
    if (answer?.ok) return;
  }
  throw new Error(`ContextForge does not serve after ${STARTING / 1000} s`);
}

/** Has clients of 2025-11-25 call a tool through it. With `hasSessions` it keeps a session of the server for each of theirs, as its compose
 *  file has it; without, it connects to the server for each call. */
export async function measure(hasSessions) {
  const database = new Cluster().create();
  await database.start();
  const socket = join(folder, "redis.sock");
  const redis = await startRedis(socket);
  const env = settings(database, socket, hasSessions);
  const address = `127.0.0.1:${await freePort()}`;
  const words = ["-k", "uvicorn.workers.UvicornWorker", "-w", `${WORKERS}`, "--preload", "--timeout", "120", "-b", address, "mcpgateway.main:app"];
  const before = ["--pdeathsig", "TERM", ...(PIN ? ["taskset", "-c", PIN] : [])];
  const child = spawn("setpriv", [...before, join(VENV, "bin/gunicorn"), ...words], { cwd: folder, env, stdio: "ignore" });
  await untilServed(address, child);
  const python = join(VENV, "bin/python");
  const made = await promisify(execFile)(python, ["-m", "mcpgateway.utils.create_jwt_token", "--username", OWNER, "--exp", "600", "--admin"], { env, cwd: folder });
  const token = made.stdout.trim().split("\n").at(-1);
  const url = await helper(join(import.meta.dirname, "../echo.mjs"));
  await api(address, token, "POST", "/gateways", { name: "shared", url, transport: "STREAMABLEHTTP", visibility: "public" });
  const endpoint = { address, path: "/mcp/", token };
  const calls = await Promise.all(Array.from({ length: AT_ONCE }, () => begin(endpoint)));
  const clients = calls.map((one) => () => one("shared-echo", "arg-0-0-0123456789abcdef"));
  await Promise.all(clients.map((one) => one()));
  const watched = { gateway: [child.pid], database: [database.pid, redis.pid] };
  const seen = await load(clients, SECONDS, watched);
  child.kill("SIGTERM");
  redis.kill();
  await database.remove();
  return seen;
}
