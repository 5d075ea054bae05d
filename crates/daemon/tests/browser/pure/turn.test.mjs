// Turns of a conversation: how events change them, and how they are read from stored messages.

import assert from "node:assert/strict";
import { test } from "node:test";
import { calledIn, failedTurn, isSilent, newTurn, turnsOf, withEvent } from "../../../assets/turn.js";

/** Returns the pieces that events make, in a short form. @param {any[]} events */
const turnOf = (...events) => events.reduce((turn, [event, data]) => withEvent(turn, event, data, 1000), newTurn("t", "why?"));

const short = (turn) =>
  turn.pieces.map((piece) =>
    piece.kind === "call"
      ? `${piece.server}/${piece.tool} ${piece.state}`
      : `${piece.kind}${piece.whole ? "" : "…"} ${piece.text}`,
  );

const DONE = { session: "s", model: "m", end: "answered", rounds: 1, text: "", spent: {} };

test("pieces_of_text_are_one_text_until_something_else_comes", () => {
  const turn = turnOf(
    ["asked", { round: 1 }],
    ["thinking", { text: "Hm" }],
    ["thinking", { text: "m." }],
    ["text", { text: "I " }],
    ["text", { text: "look." }],
  );
  assert.deepEqual(short(turn), ["thinking Hmm.", "text… I look."]);
  assert.deepEqual(short(withEvent(turn, "asked", { round: 2 }, 0)), ["thinking Hmm.", "text I look."]);
});

test("a_call_is_one_piece_from_its_beginning_to_its_end", () => {
  const running = turnOf(
    ["text", { text: "a" }],
    ["call_begins", { id: "1", tool: "fs/read", arguments: { path: "x" } }],
    ["call_begins", { id: "2", tool: "fs/list", arguments: {} }],
  );
  assert.deepEqual(short(running), ["text a", "fs/read running", "fs/list running"]);
  const ended = withEvent(
    withEvent(running, "call_ends", { id: "2", is_error: true, text: "no", duration_ms: 7 }, 0),
    "call_ends",
    { id: "1", is_error: false, text: "yes", duration_ms: 9 },
    0,
  );
  assert.deepEqual(short(ended), ["text a", "fs/read ok", "fs/list failed"]);
  assert.deepEqual([ended.pieces[1].text, ended.pieces[1].duration, ended.pieces[2].text], ["yes", 9, "no"]);
  assert.equal(ended.pieces[0], running.pieces[0], "what did not change is the same");
});

test("a_second_call_of_the_same_name_is_another_one", () => {
  const turn = turnOf(
    ["call_begins", { id: "1", tool: "a/b" }],
    ["call_ends", { id: "1", is_error: false }],
    ["call_begins", { id: "1", tool: "a/b" }],
    ["call_ends", { id: "1", is_error: true }],
    ["call_ends", { id: "9", is_error: true }],
  );
  assert.deepEqual(short(turn), ["a/b ok", "a/b failed"]);
  assert.notEqual(turn.pieces[0].id, turn.pieces[1].id);
});

test("at_the_end_all_is_whole", () => {
  const turn = turnOf(
    ["call_begins", { id: "1", tool: "a/b" }],
    ["text", { text: "x" }],
    ["done", { ...DONE, end: "cancelled", text: "x" }],
  );
  assert.deepEqual([turn.state, turn.end.end, short(turn)], ["over", "cancelled", ["a/b stopped", "text x"]]);
});

test("a_text_that_comes_only_at_the_end_is_shown_once", () => {
  assert.deepEqual(
    short(
      turnOf(["call_begins", { id: "1", tool: "a/b" }], ["call_ends", { id: "1" }], ["done", { ...DONE, text: "all" }]),
    ),
    ["a/b ok", "text all"],
  );
  assert.deepEqual(short(turnOf(["text", { text: "all" }], ["done", { ...DONE, text: "all" }])), ["text all"]);
});

test("what_broke_keeps_what_was_said", () => {
  const error = new Error("gone");
  const turn = failedTurn(turnOf(["text", { text: "half" }], ["call_begins", { id: "1", tool: "a/b" }]), error);
  assert.deepEqual(
    [turn.state, turn.error, short(turn), turn.text],
    ["failed", error, ["text half", "a/b stopped"], "why?"],
  );
});

test("a_second_try_is_told_until_the_model_answers", () => {
  const turn = turnOf(["asked", { round: 1 }], ["retry", { after_ms: 500, why: "it is busy" }]);
  assert.equal(turn.retry, "it is busy");
  assert.equal(withEvent(turn, "text", { text: "a" }, 0).retry, null);
});

test("events_of_a_newer_daemon_change_nothing", () => {
  const turn = turnOf(["text", { text: "a" }]);
  assert.equal(withEvent(turn, "weather", { fine: true }, 0), turn);
});

test("a_turn_waits_for_the_model_only_while_nothing_else_is_seen", () => {
  assert.equal(isSilent(turnOf(["asked", { round: 1 }])), true);
  assert.equal(isSilent(turnOf(["text", { text: "a" }])), false);
  const call = turnOf(["call_begins", { id: "1", tool: "a/b" }]);
  assert.equal(isSilent(call), false);
  assert.equal(isSilent(withEvent(call, "call_ends", { id: "1" }, 0)), true);
  assert.equal(isSilent(turnOf(["done", DONE])), false);
});

test("a_tool_is_known_by_both_of_its_names", () => {
  assert.deepEqual(calledIn("fs/read/all"), { server: "fs", tool: "read/all" });
  assert.deepEqual(calledIn("mcp__my_fs__read__all"), { server: "my_fs", tool: "read__all" });
  assert.deepEqual(calledIn("run_code"), { server: null, tool: "run_code" });
});

test("what_was_kept_is_read_as_turns", () => {
  const turns = turnsOf([
    { id: "m0", role: "system", content: "be kind" },
    { id: "m1", role: "user", content: "one" },
    {
      id: "m2",
      role: "assistant",
      content: "look",
      tool_calls: [
        { id: "c1", name: "mcp__a__b", input: { x: 1 } },
        { id: "c2", name: "mcp__a__c", input: {} },
      ],
    },
    { id: "m3", role: "tool", tool_call_id: "c1", content: "no", is_error: true, parts: [{ type: "image" }] },
    { id: "m4", role: "assistant", content: "so" },
    { id: "m5", role: "user", content: "two" },
  ]);
  assert.deepEqual(
    turns.map((turn) => [turn.text, turn.state, short(turn)]),
    [
      ["one", "over", ["text look", "a/b failed", "a/c stopped", "text so"]],
      ["two", "over", []],
    ],
  );
  assert.deepEqual([turns[0].pieces[1].text, turns[0].pieces[1].parts], ["no", [{ type: "image" }]]);
});
