// The words in which a row of the audit log is shown. Pure.

import { bytes, counted, duration, moment } from "./format.js";

/** What a row is about. @param {Api.AuditRow} row */
export function aboutOf(row) {
  if (row.kind === "forgot" || row.kind === "lost") return "the log itself";
  if (row.kind.startsWith("conversation_")) return "a conversation";
  const called = [row.server, row.tool].filter(Boolean).join("/");
  return called || row.member || row.credential || "the daemon";
}

/** Who acted. @param {Api.AuditRow} row */
export const whoOf = ({ name, subject, who, client, agent }) =>
  [name ?? subject, who, client, agent && `for ${agent}`].filter(Boolean).join(", ");

/** The outcome, or what happened, in a few words. @param {Api.AuditRow} row */
export function wordOf({ kind, outcome, decision }) {
  if (kind === "call") return spaced(outcome ?? decision ?? "call");
  return kind === "answer" ? `answer: ${decision}` : spaced(kind);
}

/** @param {string} word */
const spaced = (word) => word.replaceAll("_", " ");

/** @param {Api.AuditRow} row */
export function markOf({ kind, outcome }) {
  if (kind === "failed" || kind === "lost" || (kind === "call" && outcome !== "ok")) return "mark bad";
  return kind === "trusted" || kind === "untrusted" || kind === "answer" ? "mark warn" : "mark";
}

/** The other details of a row. @param {Api.AuditRow} row @returns {[string, string][]} */
export function factsOf(row) {
  const took = row.duration_us === null ? null : duration(row.duration_us / 1000);
  /** @type {[string, string | null | undefined][]} */
  const all = [
    ["When", row.at && moment(row.at)],
    ["Acted", row.subject && `${row.name ?? "a member"} (${row.subject} of ${row.issuer})`],
    ["Tenant", row.tenant],
    ["In the name of", row.agent],
    ["Connected over", row.over],
    ["Session of the client", row.session],
    ["Conversation", row.conversation],
    ["Member", row.member],
    ["Tenant of the member", row.member_tenant],
    ["Token", row.token],
    ["Value", row.credential],
    ["Decision", row.decision],
    ["Why", row.why],
    ["Error", row.code],
    ["Took", took],
    ["Result", row.bytes === null ? null : bytes(row.bytes)],
    ["Arguments", row.arguments_bytes === null ? null : bytes(row.arguments_bytes)],
    ["SHA-256 of them", row.arguments_sha256],
    countOf(row),
    ["Forgotten up to row", row.through === null ? null : String(row.through)],
    ["Project", row.project],
    ["Fingerprint", row.content],
    ["Seal", row.hash],
  ];
  return /** @type {[string, string][]} */ (all.filter(([, value]) => value));
}

/** What the count of a row counts. @param {Api.AuditRow} row @returns {[string, string | null]} */
function countOf({ kind, count }) {
  if (count === null) return ["", null];
  if (kind === "connected") return ["Tools", counted(count, "tool")];
  return [kind === "lost" ? "Rows that were lost" : "Earlier ones without a row", String(count)];
}
