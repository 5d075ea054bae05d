// Numbers of servers and callers, which keep their spelling.

import assert from "node:assert/strict";
import { test } from "node:test";
import { draftOf, valueOf } from "../../../assets/draft.js";
import { parse, parseExact } from "../../../assets/exact-json.js";
import { json } from "../../../assets/format.js";
import { shapeOf } from "../../../assets/schema.js";

const HARD = '{"id":9007199254740993,"one":1.0,"small":-0.10,"far":1e30,"text":"1.0","list":[18446744073709551615,2]}';

test("a_number_is_shown_and_sent_as_it_came", () => {
  const { question } = parse(`{"question":{"arguments":${HARD}},"id":12.0,"took":1.50}`);
  assert.equal(JSON.stringify(question.arguments), HARD);
  assert.equal(JSON.stringify(parseExact(json(question.arguments))), HARD, "and after it was edited, too");
});

test("what_the_daemon_counts_are_numbers_to_count_with", () => {
  const said = parse('{"duration_ms":12.0,"list":[{"cost":1e3}],"arguments":{"n":5}}');
  assert.deepEqual(said, { duration_ms: 12, list: [{ cost: 1000 }], arguments: { n: 5 } });
});

test("a_number_that_is_typed_into_a_form_is_sent_as_it_is_written", () => {
  const shape = shapeOf({ type: "object", properties: { id: { type: "integer" }, x: { type: "number" }, any: {} } });
  const given = parseExact('{"id":9007199254740993,"x":1.0,"any":{"deep":123456789012345678901}}');
  const { value, problems } = valueOf(shape, draftOf(shape, given));
  assert.deepEqual(problems, []);
  assert.equal(JSON.stringify(value), JSON.stringify(given));
});

test("a_choice_of_a_schema_is_sent_as_the_server_wrote_it", () => {
  const id = "9007199254740993";
  const schema = `{"type":"object","required":["a","b","c"],"properties":{
    "a":{"enum":[1.0,${id}],"default":${id}},
    "b":{"const":${id}},
    "c":{"oneOf":[{"const":${id}},{"const":2.0}],"default":2.0}}}`;
  const { tool } = parse(`{"tool":{"input_schema":${schema}}}`);
  const shape = shapeOf(tool.input_schema);
  assert.deepEqual(shape.fields[2].shape().labels, [id, "2.0"]);
  const { value, problems } = valueOf(shape, draftOf(shape));
  assert.deepEqual(problems, []);
  assert.equal(JSON.stringify(value), `{"a":${id},"b":${id},"c":2.0}`);
});

test("a_bound_of_a_parameter_with_the_name_of_a_keyword_is_a_number_to_compare_with", () => {
  const schema = '{"type":"object","properties":{"input":{"type":"number","minimum":1.0,"maximum":5.0}}}';
  const shape = shapeOf(parse(`{"input_schema":${schema}}`).input_schema);
  const problems = (input) => valueOf(shape, draftOf(shape, { input })).problems.map(({ message }) => message);
  assert.deepEqual(problems(3), []);
  assert.deepEqual(problems(0), ["must be at least 1"]);
  assert.deepEqual(problems(6), ["must be at most 5"]);
});
