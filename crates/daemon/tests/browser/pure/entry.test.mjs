// Entries of configuration files: the form, and what the user pasted.

import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyForm, entryOf, formOf, hiddenIn } from "../../../assets/entry.js";
import { parsePasted, withoutComments } from "../../../assets/pasted.js";
import { linesOf } from "../../../assets/proposal-lines.js";

test("an_entry_survives_its_form", () => {
  const entries = [
    {
      command: "npx",
      args: ["-y", "x", "with space"],
      cwd: "/a",
      env: { A: "***", B: "${B}" },
      timeout: 5,
      oauth: { scopes: ["a"] },
    },
    { url: "https://example.com/mcp", headers: { Authorization: "Bearer ${T}" }, disabled_tools: ["x"] },
    { url: "${URL}", type: "sse" },
    { command: "x" },
    { command: "sh", args: ["-c", "echo one\necho two", "", " x "], cwd: "/a" },
    { command: "x", args: ["safe\u202etxt.exe", "\u200b"] },
    { command: "x", args: [] },
    { type: "stdio", command: "x", args: ["a"], env: { PORT: 5, ON: true }, url: null },
    { type: "http", url: "https://example.com/mcp", env: { A: "b" } },
    { type: "streamable-http", url: "https://example.com/mcp", headers: {} },
    { type: "http", command: "x", cwd: " /a " },
    { command: "npx", env: { " A ": "b" } },
  ];
  for (const entry of entries) assert.deepEqual(entryOf(formOf(entry)), { entry });
});

test("a_change_of_one_field_changes_only_that_field", () => {
  const entry = { type: "stdio", command: "sh", args: ["-c", "echo one\necho two", ""], env: { PORT: 5 } };
  assert.deepEqual(entryOf({ ...formOf(entry), cwd: "/a" }), { entry: { ...entry, cwd: "/a" } });
  const url = "https://example.com/mcp";
  assert.deepEqual(entryOf({ ...formOf({ ...entry, env: {} }), transport: "http", url, others: "" }), { entry: { url } });
  assert.equal(entryOf({ ...formOf(entry), args: "[" }).field, "args");
  assert.deepEqual(entryOf({ ...formOf(entry), args: "", others: "" }), { entry: { type: "stdio", command: "sh" } });
});

test("what_is_missing_is_said_with_its_field", () => {
  const field = (part) => entryOf({ ...emptyForm(), ...part }).field;
  assert.equal(field({}), "command");
  assert.equal(field({ transport: "http", url: "example.com" }), "url");
  assert.equal(field({ transport: "http", url: "javascript:alert(1)" }), "url");
  assert.equal(field({ command: "x", others: "[1]" }), "others");
});

test("hidden_values_are_named_since_a_copy_lacks_them", () => {
  assert.deepEqual(hiddenIn({ env: { A: "***", B: "x" }, headers: { C: "Bearer ***" } }), ["A", "C"]);
});

test("pasted_text_may_be_a_file_a_part_of_one_or_an_entry", () => {
  const entry = { command: "npx", args: ["-y", "x"] };
  const json = JSON.stringify(entry);
  const found = { found: [{ name: "a", entry }] };
  assert.deepEqual(parsePasted(`{"mcpServers": {"a": ${json}}}`), found);
  assert.deepEqual(parsePasted(`{"servers": {"a": ${json}}, "inputs": []}`), found);
  assert.deepEqual(parsePasted(`{"mcp": {"servers": {"a": ${json}}}}`), found);
  assert.deepEqual(parsePasted(`{"a": ${json}}`), found);
  assert.deepEqual(parsePasted(`"a": ${json}`), found);
  assert.deepEqual(parsePasted(`"a": ${json},`), found);
  assert.deepEqual(parsePasted(json), { found: [{ name: "", entry }] });
});

test("comments_and_commas_too_many_are_taken_and_strings_left_alone", () => {
  const text = '{ // one\n "a": { /* two */ "command": "x // no comment, ]", "args": ["a,]",], }, }';
  assert.deepEqual(parsePasted(text), {
    found: [{ name: "a", entry: { command: "x // no comment, ]", args: ["a,]"] } }],
  });
  assert.equal(withoutComments('"a\\"// b" // c'), '"a\\"// b" ');
});

test("text_that_is_no_entry_is_refused_with_a_reason", () => {
  assert.match(parsePasted("npx -y x").problem, /not JSON/);
  assert.match(parsePasted("[1]").problem, /object/);
  assert.match(parsePasted('{"a": {"args": []}}').problem, /command/);
});

test("what_changed_since_an_agreement_is_marked", () => {
  const now = { command: "npx", args: ["-y", "x", "--write"], env: { A: "1" }, extra: true };
  const then = { command: "npx", args: ["-y", "x"], headers: { B: "2" } };
  const changed = linesOf(now, then, "/p").map(({ label, value, before }) => [label, value, before]);
  assert.deepEqual(changed, [
    ["Runs", "npx", undefined],
    ["Arguments", "-y\nx\n--write", "-y\nx"],
    ["In", "/p", undefined],
    ["Environment", "A=1", null],
    ["Headers", "(no longer there)", "B=2"],
    ["extra", "true", null],
  ]);
  assert.ok(
    linesOf(now, null, "/p").every(({ before }) => before === undefined),
    "nothing is marked where nothing was agreed to",
  );
});
