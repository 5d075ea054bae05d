// The control API. No other module of the dashboard fetches.

import { base, pathOf } from "./agent.js";
import { heardTime } from "./clock.js";
import { parse } from "./exact-json.js";
import { inPlace } from "./slots.js";
import { eventsOf } from "./sse.js";
import { dropSession, dropToken, signInAt, token } from "./token.js";

/** An error that the daemon answered with, or the lack of an answer. */
export class Refusal extends Error {
  /**
   * @param {number} status the status of HTTP; 0 when there was no answer
   * @param {{code?: string, message?: string, hint?: string | null, server?: string | null, tool?: string | null}} error
   */
  constructor(status, error) {
    super(error.message ?? `the daemon answered with ${status}`);
    this.status = status;
    this.code = error.code ?? "UNKNOWN";
    this.hint = error.hint ?? null;
    this.server = error.server ?? null;
    this.tool = error.tool ?? null;
  }
}

/**
 * @typedef {object} Options
 * @property {string} [method]
 * @property {unknown} [body] sent as JSON
 * @property {Record<string, string>} [headers]
 * @property {AbortSignal} [signal]
 */

/**
 * Sends a request, and returns the response unread.
 * @param {string} path below the address of the daemon
 * @param {Options} [options]
 * @returns {Promise<Response>}
 */
export async function ask(path, { method = "GET", body, headers = {}, signal } = {}) {
  const given = token.peek();
  /** @type {Record<string, string>} */
  const sent = { ...headers };
  if (given !== null) sent.Authorization = `Bearer ${given}`;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const text = body === undefined ? undefined : JSON.stringify(body);
  let response;
  try {
    response = await fetch(pathOf(path), { method, headers: sent, body: text, signal, cache: "no-store" });
  } catch (error) {
    throw failed(error, signal);
  }
  heardTime(response.headers.get("date"));
  if (response.ok) return response;
  const error = await errorIn(response);
  if (response.status === 401) unproven(given, error.sign_in ?? null);
  throw new Refusal(response.status, error);
}

/** Forgets the token or the session that the daemon refused. @param {string | null} given the token that was sent @param {string | null} place */
function unproven(given, place) {
  signInAt.value = place;
  if (given === null) dropSession();
  else dropToken(given);
}

/**
 * Fetches a conversation with all of its messages, page by page.
 * @param {string} path of the conversation
 * @param {AbortSignal} [signal]
 * @returns {Promise<{session: Api.Session, messages: Api.Message[]}>}
 */
export async function transcript(path, signal) {
  const all = await get(path, signal);
  for (let { next } = all; next !== null; ) {
    const more = await get(`${path}?after=${next}`, signal);
    all.messages.push(...more.messages);
    next = more.next;
  }
  return all;
}

/**
 * Fetches a file of the dashboard itself, as text. It is the same for all users, and needs no token.
 * @param {string} path below `assets/`
 * @param {AbortSignal} [signal]
 * @returns {Promise<string>}
 */
export async function file(path, signal) {
  const response = await fetch(`${base}/assets/${path}`, { signal }).catch((error) => {
    throw failed(error, signal);
  });
  if (response.ok) return response.text();
  throw new Refusal(response.status, { code: "NO_FILE", message: `the daemon has no file ${path}` });
}

/** The error for a request without an answer, or for one that the caller aborted. @param {unknown} error @param {AbortSignal} [signal] */
function failed(error, signal) {
  const isLate = signal?.reason instanceof DOMException && signal.reason.name === "TimeoutError";
  if (signal?.aborted && !isLate) return error;
  return new Refusal(0, {
    code: "UNREACHABLE",
    message: isLate ? "the daemon did not answer in time" : "the daemon does not answer",
    hint: "is it running? `toolrack up` starts it",
  });
}

/** @param {Response} response */
async function errorIn(response) {
  try {
    const body = await response.json();
    return body.error ?? {};
  } catch {
    return {};
  }
}

/**
 * Sends a request, and reads the JSON of its answer.
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<any>} null when the answer is empty
 */
export async function call(path, options) {
  const response = await ask(path, options);
  if (response.status === 204) return null;
  const text = await response.text().catch((error) => {
    throw failed(error, options?.signal);
  });
  return parse(text);
}

/** @param {string} path @param {AbortSignal} [signal] */
export const get = (path, signal) => call(path, { signal });

/** @param {string} path @param {unknown} [body] */
export const post = (path, body) => call(path, { method: "POST", body });

/** The path of a server, or of something below it. @param {string} name @param {string} [below] */
export const serverPath = (name, below = "") => `/api/v1/servers/${encodeURIComponent(name)}${below}`;

/**
 * Calls a tool. Aborting the signal cancels the call: the daemon sees the connection close.
 * @param {{tool: string, arguments: unknown, id: string, approved: boolean}} request
 * @param {(progress: Api.Progress) => void} onProgress
 * @param {AbortSignal} signal
 * @returns {Promise<Api.Outcome>}
 */
export function callTool(request, onProgress, signal) {
  const message = "Other pages wait for answers: it begins when one of them has its own";
  const onWait = () => onProgress({ progress: 0, total: null, message });
  return inPlace(signal, () => callNow(request, onProgress, signal), onWait);
}

/** @type {typeof callTool} */
async function callNow(request, onProgress, signal) {
  const headers = { Accept: "text/event-stream" };
  const response = await ask("/api/v1/calls", { method: "POST", body: request, headers, signal });
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return parse(await response.text());
  for await (const { event, data } of eventsOf(response)) {
    const report = parse(data);
    if (event === "progress") onProgress(report);
    if (event === "result") return report;
    if (event === "error") throw new Refusal(response.status, report.error ?? {});
  }
  throw new Refusal(0, {
    code: "INTERRUPTED",
    message: "the answer ended before the result",
    hint: "the tool may have run: look before you call it again",
  });
}

/**
 * Asks the model, and reports the events of the turn until it has ended. Aborting the signal cancels the turn.
 * @param {{session: string | null, text: string, id: string, model?: string, servers?: string[], tools?: string[]}} request an empty text continues a turn that was interrupted
 * @param {(event: string, data: any) => void} onEvent all events but `error`, which is thrown
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
export function takeTurn(request, onEvent, signal) {
  return inPlace(signal, () => takeTurnNow(request, onEvent, signal));
}

/** @type {typeof takeTurn} */
async function takeTurnNow(request, onEvent, signal) {
  const headers = { Accept: "text/event-stream" };
  const response = await ask("/api/v1/turns", { method: "POST", body: request, headers, signal });
  try {
    for await (const { event, data } of eventsOf(response)) {
      const report = parse(data);
      if (event === "error") throw new Refusal(response.status, report.error ?? {});
      onEvent(event, report);
      if (event === "done") return;
    }
  } catch (error) {
    if (signal.aborted || error instanceof Refusal) throw error;
  }
  throw new Refusal(0, {
    code: "INTERRUPTED",
    message: "the answer ended before it was whole",
    hint: "is the daemon still running? What was said so far is kept, if conversations are",
  });
}
