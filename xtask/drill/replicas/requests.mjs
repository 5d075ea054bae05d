// Requests through HAProxy. Each has a number and belongs to an errand, so that the drill can judge a failure.

import { canary, look } from "../people.mjs";
import { asks } from "../wire.mjs";
import { TAG } from "./balancer.mjs";

/** How long a request may take, in milliseconds: longer than a replica waits until another one is removed. */
const LONGEST = 60_000;

/** What a client wants to do: one call, or a session. Its `id` is a unique word that stands in the arguments and in the result. */
export class Errand {
  constructor(who, era, kind) {
    Object.assign(this, { who, era, kind, id: canary("arg", who), from: performance.now(), to: Infinity });
    /** The last request, which is the one that fails when the errand does. */
    this.request = { tag: 0, from: 0, to: Infinity, isLate: false, isLost: false };
  }

  /** The unique word as the result repeats it. */
  get result() {
    return this.id.replace("arg-", "res-");
  }
}

let tags = 0;

/** Sends one request of an errand. Throws when the connection is lost, or the answer is not complete in time. */
export async function send(errand, method, path, body, headers = {}, onData = undefined) {
  tags += 1;
  const request = { tag: tags, from: performance.now(), to: Infinity, isLate: false, isLost: false };
  errand.request = request;
  const signal = AbortSignal.timeout(LONGEST);
  try {
    const answer = await asks(errand.who, method, path, body, { ...headers, [TAG]: `${request.tag}` }, onData, signal);
    look(errand.who, `${errand.kind} of ${errand.era}`, answer.text);
    return answer;
  } catch (error) {
    request.isLate = signal.aborted;
    request.isLost = !signal.aborted;
    throw signal.aborted ? new Error(`no answer after ${LONGEST / 1000} s`) : error;
  } finally {
    request.to = performance.now();
  }
}

export class Refused extends Error {
  constructor(status, text) {
    super(`${status} ${text.slice(0, 300)}`);
    this.status = status;
  }
}

/** The JSON-RPC messages of an answer, which are JSON or events. */
export function messages(text) {
  if (!/^(event|data|id|retry|:)/.test(text)) return [JSON.parse(text)];
  const data = [...text.matchAll(/^data: ?(.+)$/gm)].map(([, line]) => line);
  return data.map((line) => JSON.parse(line));
}

const JSON_OR_EVENTS = "application/json, text/event-stream";

/** Sends a request as a client of 2026-07-28 does, and returns the response. */
export async function rpc(errand, method, params, capabilities) {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "drill", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
  const headers = { accept: JSON_OR_EVENTS, "mcp-protocol-version": "2026-07-28", "mcp-method": method, "mcp-name": params.name };
  const body = { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: meta } };
  const answer = await send(errand, "POST", "/mcp", body, headers);
  if (answer.status !== 200) throw new Refused(answer.status, answer.text);
  const response = messages(answer.text).find(({ id }) => id === 1);
  if (response === undefined) throw new Error(`the stream ended without a response: ${answer.text.slice(0, 300)}`);
  return response;
}

/** Sends a message as a client of 2025-11-25 does. */
export function inSession(errand, session, message, onData = undefined) {
  const headers = { accept: JSON_OR_EVENTS, "mcp-protocol-version": "2025-11-25", ...(session ? { "mcp-session-id": session } : {}) };
  return send(errand, "POST", "/mcp", { jsonrpc: "2.0", ...message }, headers, onData);
}

/** The text of a result; throws if it is an error. */
export function textOf(response) {
  const { result, error } = response;
  const text = result?.content?.map((/** @type {any} */ { text }) => text ?? "").join(" ") ?? "";
  if (error || result?.isError) throw new Error(JSON.stringify(error ?? text).slice(0, 300));
  return text;
}
