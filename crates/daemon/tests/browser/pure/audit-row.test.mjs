// Rows of the audit log: what they are about, who acted, and their details.

import assert from "node:assert/strict";
import { test } from "node:test";
import { aboutOf, factsOf, whoOf, wordOf } from "../../../assets/audit-row.js";

/** Fields that are in each row, here without a value. */
const NOTHING = Object.fromEntries(
  [
    ...["at", "who", "client", "over", "session", "conversation", "agent", "server", "tool", "decision", "why"],
    ...["outcome", "code", "arguments", "arguments_sha256", "arguments_bytes", "duration_us", "bytes", "count"],
    ...["project", "content", "through"],
  ].map((field) => [field, null]),
);

/** @param {string} kind @param {object} fields */
const row = (kind, fields = {}) => ({ ...NOTHING, seq: 1, kind, hash: "00", ...fields });

test("only_rows_about_the_log_are_about_the_log_itself", () => {
  const member = "Bob (u-2 of https://login.example, member)";
  const about = [
    [row("forgot", { through: 9 }), "the log itself"],
    [row("lost", { count: 3 }), "the log itself"],
    [row("call", { server: "github", tool: "search" }), "github/search"],
    [row("connected", { server: "github", count: 3 }), "github"],
    [row("member_changed", { member }), member],
    [row("token_made", { member, token: "t-1" }), member],
    [row("credential_given", { credential: "GITHUB_TOKEN" }), "GITHUB_TOKEN"],
    [row("conversation_read", { why: "the conversation c-1 of u-2" }), "a conversation"],
    [row("turned_away", { client: "curl" }), "the daemon"],
  ];
  for (const [one, said] of about) assert.equal(aboutOf(one), said, one.kind);
});

test("a_row_of_a_team_names_the_member_who_acted_and_what_was_changed", () => {
  const made = row("token_made", {
    who: "daemon",
    tenant: "acme",
    issuer: "https://login.example",
    subject: "u-1",
    name: "Ann",
    member: "Bob (u-2)",
    member_tenant: "bolt",
    token: "t-1",
    over: "http",
    session: "s-1",
    conversation: "c-1",
  });
  assert.equal(whoOf(made), "Ann, daemon");
  assert.equal(wordOf(made), "token made");
  assert.deepEqual(factsOf(made), [
    ["Acted", "Ann (u-1 of https://login.example)"],
    ["Tenant", "acme"],
    ["Connected over", "http"],
    ["Session of the client", "s-1"],
    ["Conversation", "c-1"],
    ["Member", "Bob (u-2)"],
    ["Tenant of the member", "bolt"],
    ["Token", "t-1"],
    ["Seal", "00"],
  ]);
});

test("a_count_says_what_it_counts", () => {
  const [count] = factsOf(row("connected", { server: "github", count: 1 }));
  assert.deepEqual(count, ["Tools", "1 tool"]);
  assert.deepEqual(factsOf(row("lost", { count: 3 }))[0], ["Rows that were lost", "3"]);
  assert.deepEqual(factsOf(row("turned_away", { count: 2 }))[0], ["Earlier ones without a row", "2"]);
});
