// Events: how the stream is split into them, what they change, and when a broken stream is opened again.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LINGER, shownAfter } from "../../../assets/shown-questions.js";
import { daemonNow, heardTime } from "../../../assets/clock.js";
import { pause } from "../../../assets/events.js";
import { historyOf, linesSince, LOG_LENGTH, merged, withEvent, withFetched } from "../../../assets/merge.js";
import { reasonOf } from "../../../assets/reason.js";
import { EventCutter } from "../../../assets/sse.js";

test("a_stream_may_be_cut_anywhere", () => {
  const stream =
    ": hello\r\n\r\nid: 7\r\nevent: a\r\ndata: one\r\ndata:two\r\n\r\ndata: {}\n\nevent: empty\n\nid: 8\rdata: x\r\r";
  const whole = new EventCutter().push(`${stream}\n`);
  assert.deepEqual(whole, [
    { event: "a", data: "one\ntwo", id: "7" },
    { event: "message", data: "{}", id: "7" },
    { event: "message", data: "x", id: "8" },
  ]);
  for (let size = 1; size < 9; size += 1) {
    const cutter = new EventCutter();
    const pieces = `${stream}\n`.match(new RegExp(`[^]{1,${size}}`, "g"));
    assert.deepEqual(
      pieces.flatMap((piece) => cutter.push(piece)),
      whole,
      `in pieces of ${size}`,
    );
  }
});

const WORLD = {
  servers: [
    { name: "a", state: "failed", error: "why" },
    { name: "b", state: "connected" },
  ],
  questions: [],
  log: [],
};
let id = 0;
const event = (name, data = {}) => ({ id: String((id += 1)), name, data: { at: "2026-11-22T08:00:00Z", ...data } });

test("a_new_state_replaces_the_old_one_with_its_reason", () => {
  const { world, stale } = merged(
    WORLD,
    event("mcp_server_state", { server: "a", state: { state: "connected", tools: 3 } }),
  );
  assert.deepEqual([world.servers[0].state, world.servers[0].error, world.servers[0].tools], ["connected", null, 3]);
  assert.equal(world.servers[1], WORLD.servers[1], "the others are left as they are");
  assert.deepEqual(stale, ["servers", "overview"]);
});

test("a_list_that_was_made_before_a_change_does_not_take_it_back", () => {
  const opened = event("question_opened", { question: { id: "q2" } });
  const closed = event("question_closed", { id: "q1" });
  const since = [opened, closed].map((change) => (world) => withEvent(world, change));
  const world = withFetched(WORLD, { questions: [{ id: "q1" }, { id: "q0" }] }, since);
  assert.deepEqual(world.questions, [{ id: "q0" }, { id: "q2" }]);
  assert.equal(world.servers, WORLD.servers, "what was not fetched is left as it is");
});

test("a_standing_answer_is_looked_for_when_its_call_begins_because_it_is_stored_after_its_question_is_closed", () => {
  for (const name of ["tool_started", "tool_denied"]) assert.ok(merged(WORLD, event(name)).stale.includes("answers"), name);
});

test("a_question_comes_once_and_goes", () => {
  const opened = event("question_opened", { question: { id: "q1" } });
  const { world: once, stale } = merged(WORLD, opened);
  assert.ok(stale.includes("questions"), "the daemon may have made a list that is on its way before");
  const twice = merged(once, event("question_opened", { question: { id: "q1", why: "new" } })).world;
  assert.deepEqual(twice.questions, [{ id: "q1", why: "new" }]);
  assert.deepEqual(merged(twice, event("question_closed", { id: "q1" })).world.questions, []);
});

test("a_question_that_ended_by_itself_keeps_its_place_for_a_while", () => {
  const [a, b, c] = ["a", "b", "c"].map((name) => ({ id: name }));
  const ids = (shown) => shown.map(({ question, over }) => (over === null ? question.id : `(${question.id})`)).join("");
  const both = shownAfter([], [a, b], new Set(), 0);
  const gone = shownAfter(both, [b], new Set(), 10);
  assert.equal(ids(gone), "(a)b");
  assert.equal(ids(shownAfter(gone, [c, b], new Set(), 9 + LINGER)), "(a)bc", "and what is new comes below");
  assert.equal(ids(shownAfter(gone, [b], new Set(), 10 + LINGER)), "b");
  assert.equal(ids(shownAfter(both, [b], new Set(["a"]), 10)), "b", "one that was answered here goes at once");
});

test("an_event_that_comes_again_changes_nothing", () => {
  const first = event("mcp_tools_updated", { server: "a" });
  const { world } = merged(WORLD, first);
  assert.deepEqual(merged(world, first), { world, stale: [] });
});

test("what_happened_before_the_page_was_opened_is_history_and_changes_nothing", () => {
  const { world, stale } = merged(WORLD, event("mcp_server_state", { server: "b", state: { state: "failed" } }), true);
  assert.equal(world.servers[1].state, "connected");
  assert.equal(world.log.length, 1);
  assert.deepEqual(stale, []);
});

test("what_was_missed_is_asked_for_again", () => {
  assert.deepEqual(merged(WORLD, event("missed", { count: 3 })).stale, [
    "servers",
    "questions",
    "overview",
    "trust",
    "config",
    "tools", "answers",
  ]);
});

test("what_came_before_a_gap_is_forgotten", () => {
  const before = merged(WORLD, event("tool_started")).world;
  assert.deepEqual(merged(before, event("missed", { count: 0 })).world.log, []);
});

test("the_log_is_bounded", () => {
  let world = WORLD;
  for (let count = 0; count < LOG_LENGTH + 5; count += 1) world = merged(world, event("tool_started")).world;
  assert.equal(world.log.length, LOG_LENGTH);
});

test("the_history_of_a_server_is_its_own_newest_first_and_without_its_logs", () => {
  const log = [
    event("mcp_server_connected", { server: "a" }),
    event("mcp_server_log", { server: "a" }),
    event("tool_completed", { server: "b" }),
    event("tool_completed", { server: "a" }),
  ];
  assert.deepEqual(
    historyOf(log, "a").map(({ name }) => name),
    ["tool_completed", "mcp_server_connected"],
  );
});

test("live_lines_go_on_where_the_fetched_ones_end", () => {
  const at = (second) => `2026-11-22T08:00:0${second}.000Z`;
  const log = [
    event("mcp_server_stderr", { server: "a", line: "old", at: at(1) }),
    event("mcp_server_stderr", { server: "a", line: "new", at: at(3) }),
    event("mcp_server_log", { server: "a", level: "warning", message: { x: 1 }, at: at(4) }),
    event("mcp_server_stderr", { server: "b", line: "other", at: at(5) }),
  ];
  assert.deepEqual(linesSince(log, "a", at(1)), [
    { at: at(3), level: "stderr", text: "new" },
    { at: at(4), level: "warning", text: '{"x":1}' },
  ]);
  assert.equal(linesSince(log, "a", "").length, 3, "all of them, when nothing was fetched");
});

test("now_is_what_the_daemons_clock_says", () => {
  const at = (seconds, now) => heardTime(new Date(seconds * 1000).toUTCString(), now);
  at(1_000, 900_000);
  assert.equal(daemonNow(900_000), 1_000_000);
  at(1_000, 900_700);
  assert.equal(daemonNow(900_700), 1_000_700, "an answer of the same second changes nothing");
  at(1_000, 1_300_000);
  assert.equal(daemonNow(1_300_000), 1_000_000, "the clock of the browser was set");
  heardTime(null, 0);
  heardTime("nonsense", 0);
  assert.equal(daemonNow(1_300_000), 1_000_000);
});

test("pauses_between_tries_grow_up_to_a_bound", () => {
  assert.deepEqual(
    [1, 2, 3, 6, 60].map((tries) => pause(tries, 1)),
    [500, 1000, 2000, 15000, 15000],
  );
  assert.ok(pause(1, 0) >= 375);
});

test("the_wait_before_the_next_attempt_counts_down", () => {
  const data = { server: "a", state: { state: "reconnecting", attempt: 1, attempts: 9, in_ms: 71_000 } };
  const { world } = merged(WORLD, event("mcp_server_state", data));
  assert.equal(world.servers[0].retry_at, "2026-11-22T08:01:11.000Z");
  const at = (/** @type {string} */ time) => reasonOf(world.servers[0], Date.parse(time));
  assert.match(at("2026-11-22T08:00:00Z"), /attempt 1 of 9, next in 71 s$/);
  assert.match(at("2026-11-22T08:01:00Z"), /next in 11 s$/);
  assert.match(at("2026-11-22T08:02:00Z"), /next now$/);
  const connected = { server: "a", state: { state: "connected", tools: 1 } };
  assert.equal(merged(world, event("mcp_server_state", connected)).world.servers[0].retry_at, null);
});
