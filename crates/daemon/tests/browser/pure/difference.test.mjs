import assert from "node:assert/strict";
import { test } from "node:test";
import { difference, fieldsOf } from "../../../assets/difference.js";

const SIGNS = { same: " ", added: "+", removed: "-" };
const written = (lines) => lines.map(({ kind, text }) => SIGNS[kind] + text);

test("what_went_stands_before_what_came_in_its_place", () => {
  const lines = difference(["a", "b", "c", "d"], ["a", "x", "c", "d", "e"]);
  assert.deepEqual(written(lines), [" a", "-b", "+x", " c", " d", "+e"]);
  assert.deepEqual(written(difference([], ["a"])), ["+a"]);
  assert.deepEqual(written(difference(["a"], [])), ["-a"]);
});

test("both_sides_can_be_read_off_a_difference", () => {
  let seed = 7;
  const next = (below) => (seed = (seed * 48_271) % 2_147_483_647) % below;
  for (let round = 0; round < 300; round += 1) {
    const some = () => Array.from({ length: next(9) }, () => "abc"[next(3)]);
    const [before, now] = [some(), some()];
    const lines = difference(before, now);
    const without = (kind) => lines.filter((line) => line.kind !== kind).map(({ text }) => text);
    assert.deepEqual([without("added"), without("removed")], [before, now]);
  }
});

test("more_than_can_be_compared_is_shown_whole", () => {
  const before = Array.from({ length: 2_000 }, (_, at) => `b${at}`);
  const lines = difference(before, [...before, "new"]);
  assert.equal(lines.filter(({ kind }) => kind === "removed").length, 2_000);
  assert.equal(lines.at(-1).text, "new");
});

test("fields_that_changed_come_first_and_one_that_is_new_or_gone_is_a_change", () => {
  const before = { name: "echo", description: "old", title: "Echo", inputSchema: { a: 1 } };
  const now = { name: "echo", description: "new", inputSchema: { a: 1 }, _meta: { x: [1] } };
  const fields = fieldsOf(now, before);
  assert.deepEqual(
    fields.map(({ name, status }) => `${name} ${status}`),
    ["title changed", "description changed", "_meta changed", "name same", "inputSchema same"],
  );
  assert.deepEqual(written(fields[1].lines), ["-old", "+new"]);
  assert.ok(fieldsOf(now, null).every(({ status }) => status === "same"), "nothing is known of what was");
});
