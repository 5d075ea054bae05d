// Requests to the daemon.

import assert from "node:assert/strict";
import { Agent, request } from "node:http";

import { sleep } from "./settings.mjs";

/** It closes idle connections before HAProxy does: a request on a connection that HAProxy is closing would be lost. */
export const agent = new Agent({ keepAlive: true, maxSockets: 400, timeout: 60_000 });
/** Since when a connection has been without a request. */
const idleSince = new WeakMap();
agent.on("free", (/** @type {object} */ socket) => idleSince.set(socket, performance.now()));
let address = "";

export function setAddress(/** @type {string} */ of) {
  address = of;
}

/** What proves who asks: a token, or the cookie of a browser on the dashboard. */
function proof(who) {
  return who.cookie ? { cookie: who.cookie, "sec-fetch-site": "same-origin" } : { authorization: `Bearer ${who.token}` };
}

/** @returns {Promise<{status: number, headers: import("node:http").IncomingHttpHeaders, text: string}>} */
export function asks(who, method, path, body, headers = {}, onData = undefined, signal = undefined) {
  return asksAt(address, who, method, path, body, headers, onData, signal);
}

/** Asks a daemon at another address.
 *  @returns {Promise<{status: number, headers: import("node:http").IncomingHttpHeaders, text: string}>} */
export function asksAt(address, who, method, path, body, headers = {}, onData = undefined, signal = undefined) {
  const [host, port] = address.split(":");
  const text = body === undefined ? undefined : JSON.stringify(body);
  let idle = /** @type {number | undefined} */ (undefined);
  return new Promise((done, failed) => {
    const all = {
      host: address,
      ...proof(who),
      ...(text === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(text) }),
      ...headers,
    };
    const sent = request({ host, port, method, path, agent, headers: all, signal }, (response) => {
      let answer = "";
      response.setEncoding("utf8");
      response.on("data", (piece) => (onData ? onData(piece) : (answer += piece)));
      response.on("end", () => done({ status: response.statusCode ?? 0, headers: response.headers, text: answer }));
      response.on("error", failed);
    });
    sent.on("socket", (socket) => (idle = sent.reusedSocket ? performance.now() - (idleSince.get(socket) ?? 0) : undefined));
    sent.on("error", (error) => failed(Object.assign(error, { idle })));
    sent.end(text);
  });
}

export async function expects(status, answer) {
  const { status: was, text } = await answer;
  assert.equal(was, status, text);
}

/** How long it takes until an answer is as it should be, in milliseconds. */
export async function until(isRight, send) {
  const begun = performance.now();
  while (!isRight(await send())) {
    if (performance.now() - begun > 10_000) return 10_000;
    await sleep(10);
  }
  return performance.now() - begun;
}
export const hasStatus = (status) => (answer) => answer.status === status;

const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "drill", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
const EITHER = "application/json, text/event-stream";

/** A request of a client of 2026-07-28. */
export function mcp(who, method, params = {}) {
  const headers = {
    accept: EITHER,
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": method,
    ...(params.name ? { "mcp-name": params.name } : {}),
  };
  return asks(who, "POST", "/mcp", { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: META } }, headers);
}

/** Begins a session as a client of 2025-11-25 does; returns its id. */
export async function session(who) {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "drill", version: "1" } };
  const begun = await asks(who, "POST", "/mcp", { jsonrpc: "2.0", id: 1, method: "initialize", params }, { accept: EITHER });
  assert.equal(begun.status, 200, begun.text);
  const id = String(begun.headers["mcp-session-id"]);
  await expects(202, inSession(who, id, { method: "notifications/initialized" }));
  return id;
}

/** A message of a client of 2025-11-25. */
export function inSession(who, id, message) {
  const headers = { accept: EITHER, "mcp-session-id": id, "mcp-protocol-version": "2025-11-25" };
  return asks(who, "POST", "/mcp", { jsonrpc: "2.0", ...message }, headers);
}
