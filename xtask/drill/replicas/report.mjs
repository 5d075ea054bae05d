// What the drill has seen, and whether all goals were reached.

import { allFinds, counts, people } from "../people.mjs";
import { TENANTS, percentile } from "../settings.mjs";
import { VISIBLE_WITHIN, tally } from "./clients.mjs";
import { kills } from "./kills.mjs";
import { countBelieved, lies } from "./liar.mjs";
import { LONGEST_RECOVERY } from "./recovery.mjs";
import { countRenewals } from "./renewals.mjs";
import { REPLICAS, ends } from "./siblings.mjs";
import { executions, failuresOf } from "./verdict.mjs";

const inMs = (all, part) => `${percentile(all, part).toFixed(0)} ms`;
const lines = (texts) => texts.slice(0, 6).map(([text, count]) => `                      ${count} × ${text}\n`).join("");

/** The counts that must be zero, with what they are called. */
function goalsOf(seen, chains, recovery) {
  const { executed, renewals, believed, modern, legacy } = seen;
  return [
    ["executed twice", [executed.twice, ""]],
    ["never executed", [executed.never, "of those with a result"]],
    ["foreign bytes", [counts.foreign, ""]],
    ["other errors", [modern.others, "of 2026-07-28"], [legacy.others, "of 2025-11-25"]],
    ["unclear errors", [modern.unclear, "of 2026-07-28"], [legacy.unclear, "of 2025-11-25, while the database or the network failed"]],
    ["answered twice", [tally.answeredTwice, "questions"], [tally.withoutQuestion, "calls ran without their question"]],
    ["renewed twice", [renewals.twice, `of ${renewals.all} expired tokens (${renewals.again} others because a replica had died)`]],
    ["liars", [believed, `of ${lies.told} requests of a sibling that lies were believed`]],
    ["audit logs", [chains, "do not verify"]],
    ["recovery", [recovery.never, `not within ${LONGEST_RECOVERY} s; the longest took ${recovery.longest} s`]],
    ["replicas", [ends.unexpected, "ended by themselves"], [ends.late, "did not end in time"]],
  ];
}

/** Prints the report. Returns whether all goals were reached. */
export function report({ duration, clients, chains, recovery }) {
  const [modern, legacy] = ["modern", "legacy"].map(failuresOf);
  const seen = { executed: executions(), renewals: countRenewals(), believed: countBelieved(), modern, legacy };
  const { calls, questions, latencies } = tally;
  const goals = goalsOf(seen, chains, recovery);
  const longest = Math.max(modern.longest, legacy.longest).toFixed(1);
  const rate = ((calls.modern + calls.legacy) / duration).toFixed(0);
  const inWords = (all) => all.map(([count, what]) => `${count} ${what}`.trim()).join(", ");
  const zeros = goals.map(([name, ...all]) => `${name.padEnd(19)} ${inWords(all)} (goal 0)\n`);
  console.log(`
${REPLICAS} replicas, ${TENANTS} tenants, ${people.length} members, ${clients} clients for ${duration.toFixed(0)} s, ${kills.length} faults
calls               ${calls.modern} of 2026-07-28, ${calls.legacy} of 2025-11-25 (${rate}/s), ${seen.executed.all} executed
latency             median ${inMs(latencies, 0.5)}, 99 % ${inMs(latencies, 0.99)}, longest ${inMs(latencies, 1)}
questions           ${questions.rounds} in rounds, ${questions.stream} in streams, ${questions.api} over the API, ${tally.unseen} not seen for ${VISIBLE_WITHIN / 1_000} s; ${tally.replayed} states sent again
conversations       ${tally.turns} turns, ${tally.continued} of them continued after they were interrupted
sessions            ${tally.sessions} begun, ${tally.begunAnew} of them because the one before was gone; ${tally.events} events read
heartbeats          ${ends.lateHeartbeats} late
failed by a fault   ${modern.explained} calls of 2026-07-28, ${legacy.explained} of 2025-11-25, after ${longest} s at most
${lines(modern.texts)}${lines(legacy.texts)}${zeros.join("")}${allFinds()}`);
  const uses = [calls.modern, calls.legacy, tally.turns, ...Object.values(questions)];
  return uses.every((count) => count > 0) && goals.every(([, ...all]) => all.every(([count]) => count === 0));
}
