// Clients of both eras, which call tools and answer questions until the drill is over.

import { found, look } from "../people.mjs";
import { STDIO, option, sleep } from "../settings.mjs";
import { asks } from "../wire.mjs";
import { SIGNED } from "./renewals.mjs";
import { Errand, Refused, inSession, messages, rpc, send, textOf } from "./requests.mjs";

/** How long a client pauses between two calls, in milliseconds, on average. */
export const PAUSE = option("pause", 1_000);
/** How long a person thinks about a question at most, in milliseconds. */
const THINKING = 600;
/** How long a question may take until its member sees it, in milliseconds. */
export const VISIBLE_WITHIN = 15_000;
const ALLOW = { action: "accept", content: { decision: "allow" } };

export const tally = {
  calls: { modern: 0, legacy: 0 },
  questions: { rounds: 0, api: 0, stream: 0 },
  /** Questions that a member who was to answer them over the API did not see in time, as while the database is away. */
  unseen: 0,
  /** Turns of conversations, and how many of them were interrupted and continued. */
  turns: 0,
  continued: 0,
  events: 0,
  sessions: 0,
  /** Sessions that a client of 2025-11-25 began because the one before was gone. */
  begunAnew: 0,
  answeredTwice: 0,
  /** Calls that needed a question and ran without one. */
  withoutQuestion: 0,
  /** States that were used up, and that a client sent again. */
  replayed: 0,
  latencies: /** @type {number[]} */ ([]),
};
/** The ids of the calls that have a result, and the errands that failed. */
export const done = new Set();
export const failures = /** @type {any[]} */ ([]);

const think = () => sleep(Math.random() * THINKING);
const anyOf = (/** @type {any[]} */ choices) => choices[Math.floor(Math.random() * choices.length)];

/** Does `action` for an errand, and notes the outcome. Returns the error, if there is one. */
export async function attempt(errand, action) {
  try {
    const text = await action(errand);
    look(errand.who, `a result of ${errand.era}`, text);
    errand.to = performance.now();
    if (!text.includes(errand.result)) {
      if (errand.mayLackResult) return undefined;
      throw new Error(`another result: ${text.slice(-300)}`);
    }
    done.add(errand.id);
    tally.calls[errand.era] += 1;
    tally.latencies.push(errand.to - errand.from);
  } catch (error) {
    errand.to = performance.now();
    failures.push({ errand, error, request: { ...errand.request } });
    return error;
  }
  return undefined;
}

const tool = (server, name) => `mcp__${server}__${name}`;
const serversOf = ({ tenant }) => ["shared", ...(tenant < STDIO ? ["local"] : []), ...(tenant < SIGNED ? ["signed"] : [])];
const params = (errand, server, name) => ({ name: tool(server, name), arguments: { text: errand.id } });

/** A call without a question. */
const plainly = (server) => async (errand) => textOf(await rpc(errand, "tools/call", params(errand, server, "echo"), {}));

/** A call with a question: the question comes as a result, and the client answers it with the next request. */
const inRounds = (server) => async (errand) => {
  const request = params(errand, server, "asked");
  const capabilities = { elicitation: { form: {} } };
  let answer = await rpc(errand, "tools/call", request, capabilities);
  let again = null;
  for (let left = 3; answer.result?.resultType === "input_required" && left > 0; left -= 1) {
    await think();
    const { requestState, inputRequests } = answer.result;
    const inputResponses = Object.fromEntries(Object.keys(inputRequests ?? {}).map((name) => [name, ALLOW]));
    again = { ...request, requestState, inputResponses };
    answer = await rpc(errand, "tools/call", again, capabilities);
  }
  const text = textOf(answer);
  if (again === null) tally.withoutQuestion += 1;
  else tally.questions.rounds += 1;
  if (again !== null && Math.random() < 0.1) await replay(errand, again, capabilities);
  return text;
};

/** Sends the last request of a call once more: its state is used up. */
async function replay(errand, again, capabilities) {
  tally.replayed += 1;
  const other = Object.assign(new Errand(errand.who, errand.era, "a state that is used up"), { id: errand.id });
  const answer = await rpc(other, "tools/call", again, capabilities).catch(() => undefined);
  if (answer?.result) {
    tally.answeredTwice += 1;
    found(`${errand.who.name}: a state that was used up brought ${JSON.stringify(answer.result).slice(0, 200)}`);
  }
}

/** A call whose question the same member answers over the API, with two requests at once. */
const overTheApi = (server) => async (errand) => {
  const body = { tool: `${server}/asked`, arguments: { text: errand.id } };
  const progress = { isOver: false };
  const answering = answerOverTheApi(errand, progress);
  try {
    const answer = await send(errand, "POST", "/api/v1/calls", body);
    if (answer.status !== 200) throw new Refused(answer.status, answer.text);
    return answer.text;
  } finally {
    progress.isOver = true;
    await answering;
  }
};

/** Looks for the question of a call and answers it, until the call is over. */
async function answerOverTheApi({ who, id, era }, progress) {
  const errand = Object.assign(new Errand(who, era, "an answer over the API"), { id });
  const end = performance.now() + VISIBLE_WITHIN;
  let allowed = 0;
  let isLate = false;
  while (!progress.isOver) {
    await sleep(100 + Math.random() * 200);
    if (allowed === 0 && !isLate && performance.now() > end) {
      isLate = true;
      tally.unseen += 1;
    }
    // The drill judges the call, which waits for these requests, and not the requests.
    const open = await send(errand, "GET", "/api/v1/approvals").catch(() => undefined);
    if (open?.status !== 200) continue;
    const question = JSON.parse(open.text).approvals.find((/** @type {any} */ one) => JSON.stringify(one).includes(id));
    if (question === undefined) continue;
    await think();
    const answer = () => send(errand, "POST", `/api/v1/approvals/${question.id}`, { answer: "once" }).catch(() => undefined);
    const both = await Promise.all([answer(), answer()]);
    allowed += both.filter((one) => one?.status === 204).length;
    if (allowed > 0) tally.questions.api += 1;
    if (allowed > 1) {
      tally.answeredTwice += 1;
      found(`${who.name}: a question was answered ${allowed} times`);
    }
  }
}

/** A client of 2026-07-28, until `isOver`. */
export async function modern(who, isOver) {
  while (!isOver()) {
    const server = anyOf(serversOf(who));
    const [kind, action] = anyOf([
      ["a call", plainly],
      ["a call", plainly],
      ["a call", plainly],
      ["a call with rounds", inRounds],
      ["a call that is answered over the API", overTheApi],
    ]);
    await attempt(new Errand(who, "modern", kind), action(server));
    await sleep(Math.random() * 2 * PAUSE);
  }
}

/** Begins a session of a client of 2025-11-25. */
async function beginSession(errand) {
  const hello = { protocolVersion: "2025-11-25", capabilities: { elicitation: {} }, clientInfo: { name: "drill", version: "1" } };
  const from = performance.now();
  const answer = await inSession(errand, undefined, { id: 0, method: "initialize", params: hello });
  if (answer.status !== 200) throw new Refused(answer.status, answer.text);
  const id = String(answer.headers["mcp-session-id"]);
  const greeted = await inSession(errand, id, { method: "notifications/initialized" });
  if (greeted.status !== 202) throw new Refused(greeted.status, greeted.text);
  tally.sessions += 1;
  return { id, from, calls: 0 };
}

/** A call in a session; the client answers the questions in its stream. */
const inStream = (session, server, name) => async (errand) => {
  let text = "";
  let read = 0;
  let questions = 0;
  const replies = /** @type {Promise<void>[]} */ ([]);
  const progress = { isOver: false };
  const onData = (/** @type {string} */ piece) => {
    text += piece;
    for (let end; (end = text.indexOf("\n\n", read)) >= 0; read = end + 2) {
      const event = text.slice(read, end);
      if (!event.includes('"elicitation/create"')) continue;
      questions += 1;
      replies.push(answerInSession(errand, session, messages(event)[0].id, progress));
    }
  };
  // A call that broke off may still be under way: no other call of the session may have its id.
  const call = { id: (session.calls += 1), method: "tools/call", params: params(errand, server, name) };
  const sent = inSession(errand, session.id, call, onData);
  const answer = await sent.finally(() => (progress.isOver = true));
  await Promise.all(replies);
  look(errand.who, "a stream", text);
  if (answer.status !== 200) throw new Refused(answer.status, text);
  const response = messages(text).find(({ id, method }) => id === call.id && method === undefined);
  if (response === undefined) throw new Error(`the stream ended without a response: ${text.slice(0, 300)}`);
  const result = textOf(response);
  if (name === "asked" && questions === 0) tally.withoutQuestion += 1;
  if (name === "asked") tally.questions.stream += 1;
  return result;
};

/** Answers a question in a session, and sends the answer again until it has certainly arrived: a question takes only one answer. The
 *  drill judges the call, which waits for the answer, and not these requests. */
async function answerInSession({ who, era, id: word }, session, id, progress) {
  const errand = Object.assign(new Errand(who, era, "an answer"), { id: word });
  while (!progress.isOver) {
    await think();
    const sent = await inSession(errand, session.id, { id, result: ALLOW }).catch(() => undefined);
    if (sent?.status === 202 || sent?.status === 404) return;
  }
}

/** A client of 2025-11-25, until `isOver`. It begins a new session when the one before is gone. */
export async function legacy(who, isOver) {
  let session = null;
  while (!isOver()) {
    const errand = new Errand(who, "legacy", session ? "a call" : "the beginning of a session");
    const before = session;
    const failed = await attempt(errand, async () => {
      session ??= await beginSession(errand);
      return inStream(session, anyOf(serversOf(who)), anyOf(["echo", "echo", "echo", "asked", "asked"]))(errand);
    });
    if (failed && before) Object.assign(errand, { session: before });
    if (failed instanceof Refused && failed.status === 404) {
      if (before) tally.begunAnew += 1;
      session = null;
    }
    await sleep(Math.random() * 2 * PAUSE);
  }
}

/** Reads the events of a member, and connects again whenever they end. */
export async function readEvents(who, isOver) {
  let last = "";
  while (!isOver()) {
    let rest = "";
    const onData = (/** @type {string} */ piece) => {
      const text = rest + piece;
      const end = text.lastIndexOf("\n") + 1;
      look(who, "events", text.slice(0, end));
      const ids = [...text.slice(0, end).matchAll(/^id: (.*)$/gm)];
      tally.events += ids.length;
      last = ids.at(-1)?.[1] ?? last;
      rest = text.slice(end);
    };
    const headers = { accept: "text/event-stream", ...(last ? { "last-event-id": last } : {}) };
    await asks(who, "GET", "/api/v1/events", undefined, headers, onData, isOver.signal).catch(() => undefined);
    await sleep(200);
  }
}
