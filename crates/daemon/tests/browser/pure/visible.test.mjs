// Text from servers, with characters spelled out that act on the display or are invisible.

import assert from "node:assert/strict";
import { test } from "node:test";
import { json } from "../../../assets/format.js";
import { linesOf } from "../../../assets/proposal-lines.js";
import { quoted, visible } from "../../../assets/visible.js";

test("everything_that_acts_or_hides_is_spelled_out", () => {
  const acting = [
    [0x00, 0x08],
    [0x0b, 0x1f],
    [0x7f, 0x9f],
    [0xad, 0xad],
    [0x61c, 0x61c],
    [0x200b, 0x200f],
    [0x2028, 0x202e],
    [0x2060, 0x206f],
    [0xfe00, 0xfe0f],
    [0xfeff, 0xfeff],
    [0xfff9, 0xfffb],
    [0xe0000, 0xe007f],
    [0xe0100, 0xe01ef],
  ];
  for (const [first, last] of acting)
    for (let code = first; code <= last; code += 1)
      assert.equal(visible(`a${String.fromCodePoint(code)}b`), `a\\u{${code.toString(16)}}b`);
  assert.equal(visible("a\r\n\tb\n"), "a\n\tb\n", "lines and tabs stay");
});

test("visible_joiners_are_kept", () => {
  for (const text of ["👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "می\u200cخواهم", "क्\u200dष", "1\ufe0f\u20e3"])
    assert.equal(visible(text), text);
  assert.equal(visible("a\u200db"), "a\\u{200d}b");
  assert.equal(visible("👩\u200d"), "👩\\u{200d}");
  const twice = visible("\u202e\u200b\ufe0f👩\u200d\u200d");
  assert.equal(visible(twice), twice);
});

test("json_with_what_is_not_seen_is_still_the_same_json", () => {
  const value = { "a\u200b": ["\u202eexe.live\u202c", "\u{e0041}", "x\ny", "👨\u200d👩"] };
  assert.deepEqual(JSON.parse(json(value)), value);
  assert.ok(!/[\u200b\u202a-\u202e]|\u{e0041}/u.test(json(value)), json(value));
});

test("an_argument_shows_where_it_ends", () => {
  const args = ["server.js", "--safe\u202eexe.live\u202c", "x\n--not-another-arg", "", "a b", "\\n"];
  const config = { command: "node", args };
  const of = (label) => linesOf(config, null, "/p").find((line) => line.label === label)?.value;
  assert.deepEqual(of("Arguments")?.split("\n"), [
    "server.js",
    '"--safe\\u202eexe.live\\u202c"',
    '"x\\n--not-another-arg"',
    '""',
    '"a b"',
    '"\\\\n"',
  ]);
  assert.equal(of("Runs"), "node");
  assert.equal(quoted("/usr/bin/a_b-c.d=e,f"), "/usr/bin/a_b-c.d=e,f");
});
