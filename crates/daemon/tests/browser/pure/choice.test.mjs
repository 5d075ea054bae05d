import assert from "node:assert/strict";
import { test } from "node:test";
import { chosenFor, EVERYTHING, patternsIn, remember, requestOf } from "../../../assets/choice.js";

/** A browser's storage. @param {string} [text] */
function storage(text) {
  const kept = new Map(text === undefined ? [] : [["toolrack.chat", text]]);
  return { getItem: (name) => kept.get(name) ?? null, setItem: (name, value) => kept.set(name, value), kept };
}

test("a_request_says_only_what_was_chosen", () => {
  assert.deepEqual(requestOf(EVERYTHING), {});
  assert.deepEqual(requestOf({ model: " a/b ", servers: [], tools: " x/*,y/z\n " }), {
    model: "a/b",
    servers: [],
    tools: ["x/*", "y/z"],
  });
  assert.deepEqual(patternsIn(" , "), []);
});

test("each_conversation_keeps_its_own_and_the_oldest_are_forgotten", () => {
  const place = storage();
  for (let at = 0; at < 120; at += 1) remember(`s${at}`, { ...EVERYTHING, model: `m/${at}` }, place);
  remember("s119", { ...EVERYTHING, model: "m/new" }, place);
  assert.equal(chosenFor("s119", place).model, "m/new");
  assert.equal(chosenFor("s20", place).model, "m/20");
  assert.deepEqual(chosenFor("s19", place), EVERYTHING);
});

test("what_is_kept_and_cannot_be_read_is_no_choice", () => {
  for (const text of ["{", "{}", '[["s"]]', '[["s",{"model":1}]]', '[["s",{"model":"","tools":"","servers":[1]}]]'])
    assert.deepEqual(chosenFor("s", storage(text)), EVERYTHING, text);
  const full = { getItem: () => null, setItem: () => assert.fail("full") };
  remember("s", EVERYTHING, full);
});
