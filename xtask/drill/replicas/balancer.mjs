// HAProxy in front of the replicas, as docs/scale.md recommends it. Its log shows to which replica it sent each request.

import { spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { freePort } from "../processes.mjs";
import { folder } from "../settings.mjs";

/** The header with the number of a request, which only the log of HAProxy needs. */
export const TAG = "x-drill";

const config = (port, log, servers) => `global
  log 127.0.0.1:${log} format raw local0
  maxconn 4000
defaults
  mode http
  log global
  log-format "drill %[capture.req.hdr(0)] %s %ST"
  timeout connect 1s
  timeout client 1h
  timeout server 1h
  timeout http-request 10s
  timeout http-keep-alive 10m
  timeout check 2s
  retries 3
  option redispatch 1
  retry-on conn-failure
frontend members
  bind 127.0.0.1:${port}
  http-request capture req.hdr(${TAG}) len 20
  default_backend replicas
backend replicas
  balance roundrobin
  option httpchk
  http-check disable-on-404
  http-check send meth GET uri /health ver HTTP/1.1 hdr Host 127.0.0.1:${port}
  default-server check inter 1s fastinter 500ms fall 3 rise 1 on-marked-down shutdown-sessions
${servers.map((address, number) => `  server r${number} ${address}\n`).join("")}`;

/** The replica to which HAProxy last sent each request, by the number of the request. */
const seen = new Map();

/** The number of the replica to which HAProxy last sent the request with this number. */
export const frontOf = (tag) => seen.get(tag);

/** Starts it for the replicas at `servers`. It ends with this process. */
export async function startBalancer(port, servers) {
  const log = createSocket("udp4").unref();
  log.on("message", (line) => {
    const [, tag, server] = /drill (\d+) r(\d+)/.exec(String(line)) ?? [];
    if (tag !== undefined) seen.set(Number(tag), Number(server));
  });
  await new Promise((bound) => log.bind(0, "127.0.0.1", () => bound(undefined)));
  log.setRecvBufferSize(4 << 20);
  const file = join(folder, "haproxy.cfg");
  writeFileSync(file, config(port, log.address().port, servers));
  const program = existsSync("/usr/sbin/haproxy") ? "/usr/sbin/haproxy" : "haproxy";
  const child = spawn("setpriv", ["--pdeathsig", "TERM", program, "-db", "-q", "-f", file], { stdio: ["ignore", "ignore", "pipe"] });
  let output = "";
  child.stderr.on("data", (piece) => (output = `${output}${piece}`.slice(-4_000)));
  let isOver = false;
  child.on("exit", (code) => {
    if (!isOver) throw new Error(`HAProxy ended with ${code}: ${output} (\`cargo xtask install\` installs it)`);
  });
  return {
    stop: () => {
      isOver = true;
      child.kill("SIGTERM");
      log.close();
    },
  };
}
