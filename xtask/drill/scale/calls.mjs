// Clients that call tools at an MCP endpoint over HTTP: of 2026-07-28, and of 2025-11-25 with a session.

import { Agent, request } from "node:http";

import { percentile } from "../settings.mjs";
import { taken } from "./processor.mjs";

export const agent = new Agent({ keepAlive: true, maxSockets: 400 });
const EITHER = "application/json, text/event-stream";
const CLIENT = { name: "scale", version: "1" };

/** Sends a message to an endpoint: its `address`, its `path`, and the `token` that opens it. */
function post({ address, path = "/mcp", token }, message, headers) {
  const [host, port] = address.split(":");
  const body = JSON.stringify({ jsonrpc: "2.0", ...message });
  const all = {
    host: address,
    authorization: `Bearer ${token}`,
    accept: EITHER,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    ...headers,
  };
  return new Promise((done, failed) => {
    const sent = request({ host, port, method: "POST", path, agent, headers: all }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece) => (text += piece));
      response.on("error", failed);
      response.on("end", () => done({ status: response.statusCode, headers: response.headers, text }));
    });
    sent.on("error", failed);
    sent.end(body);
  });
}

/** Throws if an answer is not the result of a call. */
function isResult({ status, text }) {
  if (status !== 200 || !text.includes("res-")) throw new Error(`${status}: ${text.slice(0, 300)}`);
  return text;
}

/** Calls a tool as a client of 2026-07-28 does, and returns the answer whatever it is. */
export function ask(endpoint, name, text) {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const headers = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name };
  return post(endpoint, { id: 1, method: "tools/call", params: { name, arguments: { text }, _meta: meta } }, headers);
}

/** The same, and throws if it is no result. */
export const call = async (endpoint, name, text) => isResult(await ask(endpoint, name, text));

/** Begins a session as a client of 2025-11-25 does. Returns how it calls tools; a gateway may do without a session. */
export async function begin(endpoint) {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: CLIENT };
  const begun = await post(endpoint, { id: 1, method: "initialize", params }, {});
  if (begun.status !== 200) throw new Error(`${begun.status}: ${begun.text.slice(0, 300)}`);
  const session = begun.headers["mcp-session-id"];
  const headers = { "mcp-protocol-version": "2025-11-25", ...(session ? { "mcp-session-id": session } : {}) };
  await post(endpoint, { method: "notifications/initialized" }, headers);
  return async (name, text) => isResult(await post(endpoint, { id: 2, method: "tools/call", params: { name, arguments: { text } } }, headers));
}

/** Has each of `clients` make calls one after another for some seconds. Returns what they saw, and what the processes in `watched` took. */
export async function load(clients, seconds, watched) {
  const latencies = [];
  const now = () => Object.fromEntries(Object.entries(watched).map(([name, pids]) => [name, taken(pids)]));
  const [before, from] = [now(), performance.now()];
  const until = from + seconds * 1_000;
  const one = async (client) => {
    for (let round = 0; performance.now() < until; round += 1) {
      const begun = performance.now();
      await client(round);
      latencies.push(performance.now() - begun);
    }
  };
  await Promise.all(clients.map(one));
  const [after, calls] = [now(), latencies.length];
  const processor = Object.fromEntries(Object.keys(watched).map((name) => [name, Math.round(((after[name] - before[name]) / calls) * 1e6)]));
  const perSecond = calls / ((performance.now() - from) / 1_000);
  return { calls, perSecond, processor, median: percentile(latencies, 0.5), most: percentile(latencies, 0.99) };
}
