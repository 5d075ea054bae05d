// Judges what happened by the rules of the drill.

import { existsSync, readFileSync } from "node:fs";

import { found } from "../people.mjs";
import { frontOf } from "./balancer.mjs";
import { done, failures } from "./clients.mjs";
import { kills } from "./kills.mjs";
import { OF_REPLICAS } from "./recovery.mjs";
import { EXECUTED } from "./siblings.mjs";

/** Whether an errand may fail when its replica ends after a SIGTERM: the replica waits neither for people nor for sessions. */
const mayFailAtEnd = (errand) => errand.kind !== "a call" || errand.era === "legacy";

/** How long HAProxy takes at most to mark a killed replica as down, in milliseconds: a check fails after a second, and two more after 500 ms
 *  each. Then it closes the connection of each request that it holds for that replica (`on-marked-down shutdown-sessions`). */
const MARKED_DOWN = 2_500;

const overlaps = ({ from, to }, kill) => from <= kill.to && to >= kill.from;

/** Whether an errand was under way when a replica was killed at which it had a request, or which was the home of its tenant. */
function wasHit({ errand, request }) {
  if (request.isLate) return false;
  const front = frontOf(request.tag);
  // HAProxy closes the connection of a client without an answer, and logs nothing, when its own connection to the replica breaks before
  // an answer.
  const isUnlogged = front === undefined && request.isLost;
  const mayBeAt = (replica) => front === replica || isUnlogged;
  return kills.some((kill) => {
    if (kill.replica === undefined) return overlaps(errand, kill);
    if (kill.how === "term") return mayFailAtEnd(errand) && kill.homes.has(errand.who.tenant) && overlaps(errand, kill);
    return (
      (mayBeAt(kill.replica) && overlaps(request, kill)) ||
      (isUnlogged && overlaps(request, { from: kill.from, to: kill.to + MARKED_DOWN })) ||
      (kill.homes.has(errand.who.tenant) && overlaps(errand, kill))
    );
  });
}

/** Whether a failure says what is wrong in a way that a program reads: an error of the API or of JSON-RPC, or the text of a result with
 *  `isError`. A stream that has begun can only be cut off. */
const isClear = ({ error }) => error.message === "aborted" || /"code":|^"/.test(error.message);

/** Whether a fault has ended the process that a request was at, or stopped it, so that no one was left to say what is wrong. */
const mayBeUnclear = ({ request }) => kills.some((kill) => OF_REPLICAS.includes(kill.how) && overlaps(request, kill));

/** Whether a session is gone because the home of its tenant was killed since it began. */
const mayBeGone = ({ errand, error }) =>
  error.status === 404 &&
  errand.session !== undefined &&
  kills.some((kill) => kill.homes.has(errand.who.tenant) && overlaps({ from: errand.session.from, to: errand.to }, kill));

/** An error in one line. */
const short = (error) => error.message.replace(/<[^>]*>|\s+/g, " ").trim();

/** How long the connection of a lost request had been without a request. */
const onIdle = ({ idle }) => (idle === undefined ? "" : ` on a connection that was idle for ${(idle / 1000).toFixed(2)} s`);

const nameOf = ({ how, replica }) => (replica === undefined ? how : `${how} r${replica}`);

/** What failed where, and after which faults. */
function inOneLine({ errand, error, request }) {
  const before = kills.filter((kill) => kill.from <= request.to).sort((one, other) => one.from - other.from);
  const near = before.map((kill) => `${nameOf(kill)} ${((request.to - kill.from) / 1000).toFixed(1)} to ${((request.to - kill.to) / 1000).toFixed(1)} s before`);
  const at = `at r${frontOf(request.tag) ?? "?"} after ${(request.to - request.from).toFixed(0)} ms`;
  const { who, era, kind } = errand;
  return `${who.name} (${era}): ${kind} ${at}: ${short(error)}${onIdle(error)}; before: ${near.slice(-3).join(", ") || "none"}`;
}

/** Failures by their message without numbers, the most frequent one first. */
function byText(all) {
  const texts = new Map();
  for (const failure of all) {
    const text = short(failure.error).replace(/[0-9a-f]{8,}|\d+/g, "…").slice(0, 160);
    texts.set(text, [...(texts.get(text) ?? []), failure]);
  }
  return [...texts].sort(([, one], [, other]) => other.length - one.length);
}

/** The failures of the clients of an era: those that a kill explains, with the count of each message, and all others. */
export function failuresOf(era) {
  const of = failures.filter(({ errand }) => errand.era === era);
  const explained = of.filter((failure) => wasHit(failure) || mayBeGone(failure));
  const others = of.filter((failure) => !explained.includes(failure));
  const unclear = explained.filter((failure) => !isClear(failure) && !mayBeUnclear(failure));
  for (const [name, all] of Object.entries({ others, unclear })) {
    for (const [text, [first, ...more]] of byText(all).slice(0, 6)) found(`${name}: ${1 + more.length} × ${text}\n    ${inOneLine(first)}`);
  }
  return {
    explained: explained.length,
    others: others.length,
    unclear: unclear.length,
    longest: Math.max(0, ...explained.map(({ request }) => request.to - request.from)) / 1_000,
    texts: byText(explained).map(([text, all]) => [text, all.length]),
  };
}

/** How many calls were executed, how many more than once, and how many have a result although they were never executed. */
export function executions() {
  const lines = existsSync(EXECUTED) ? readFileSync(EXECUTED, "utf8").split("\n").filter(Boolean) : [];
  const times = new Map();
  for (const line of lines) times.set(line, (times.get(line) ?? 0) + 1);
  const twice = [...times].filter(([, count]) => count > 1);
  const never = [...done].filter((id) => !times.has(id));
  for (const [id, count] of twice.slice(0, 10)) found(`${id} was executed ${count} times`);
  for (const id of never.slice(0, 10)) found(`${id} has a result, and was not executed`);
  return { all: times.size, twice: twice.length, never: never.length };
}
