// From a schema to a form, and from the content of the form to a value.

import assert from "node:assert/strict";
import { test } from "node:test";
import { draftOf, item, valueOf } from "../../../assets/draft.js";
import { shapeOf } from "../../../assets/schema.js";

const object = (properties, required = []) => ({ type: "object", properties, required });

/** Returns the value of a form that was filled with a value and not changed. */
function through(schema, value) {
  const shape = shapeOf(schema);
  return valueOf(shape, draftOf(shape, value));
}

test("fields_that_are_needed_come_first_and_otherwise_in_the_order_of_the_schema", () => {
  const text = { type: "string" };
  const shape = shapeOf(object({ z: text, y: text, x: text, w: text }, ["w", "y"]));
  assert.deepEqual(shape.fields.map(({ name }) => name), ["y", "w", "z", "x"]);
});

test("a_value_survives_the_form_that_it_is_put_into", () => {
  const point = { $ref: "#/$defs/point" };
  const schema = {
    ...object({
      text: { type: "string" },
      number: { type: "number" },
      whole: { type: "integer" },
      flag: { type: "boolean" },
      colour: { enum: ["red", 2, null] },
      nothing: { type: "null" },
      maybe: { anyOf: [{ type: "string" }, { type: "null" }] },
      either: { type: ["integer", "string"] },
      points: { type: "array", items: point },
      inner: object({
        deep: object({ list: { type: "array", items: { type: "array", items: { type: "boolean" } } } }),
      }),
      any: {},
    }),
    $defs: { point: object({ x: { type: "number" }, next: point }) },
  };
  const value = {
    text: "two\nlines",
    number: -1.5,
    whole: 0,
    flag: false,
    colour: 2,
    nothing: null,
    maybe: null,
    either: "x",
    points: [{ x: 1, next: { x: 2 } }, {}],
    inner: { deep: { list: [[true], []] } },
    any: { a: [1] },
    unknown: "kept",
  };
  assert.deepEqual(through(schema, value), { value, problems: [] });
});

test("what_is_left_empty_is_left_out_unless_it_is_needed", () => {
  const schema = object({
    a: { type: "string" },
    b: { type: "integer" },
    c: { enum: ["x"] },
    d: object({ e: { type: "string" } }, ["e"]),
    f: { type: "array" },
    g: { type: "boolean" },
  });
  assert.deepEqual(through(schema, {}), { value: {}, problems: [] });
  const needed = { ...schema, required: ["a", "b", "c", "d"] };
  assert.deepEqual(
    through(needed, {}).problems,
    ["/a", "/b", "/c", "/d/e"].map((path) => ({ path, message: "is needed" })),
  );
});

test("defaults_are_filled_in", () => {
  const schema = object({
    a: { type: "string", default: "x" },
    b: { type: "boolean", default: true },
    c: { type: "array", items: { type: "integer" }, default: [1] },
  });
  assert.deepEqual(through(schema, {}).value, { a: "x", b: true, c: [1] });
});

test("a_wrong_value_is_a_problem_at_its_own_place", () => {
  const shape = shapeOf(object({ "a/b": { type: "array", items: { type: "integer", minimum: 2 } } }));
  const draft = {
    fields: { "a/b": { items: [{ text: "1" }, { text: "2.5" }, { text: "x" }, { text: " 3 " }, { text: "" }] } },
  };
  assert.deepEqual(valueOf(shape, draft).problems, [
    { path: "/a~1b/0", message: "must be at least 2" },
    { path: "/a~1b/1", message: "is not a whole number" },
    { path: "/a~1b/2", message: "is not a number" },
    { path: "/a~1b/4", message: "is needed" },
  ]);
});

test("lengths_are_checked", () => {
  const shape = shapeOf(
    object({ word: { type: "string", minLength: 2, maxLength: 3 }, list: { type: "array", minItems: 1 } }, ["list"]),
  );
  const problems = (word) =>
    valueOf(shape, { fields: { word: { text: word }, list: { items: [] } } }).problems.map(({ message }) => message);
  assert.deepEqual(problems("😀"), ["needs at least 1 items", "needs at least 2 characters"]);
  assert.deepEqual(problems("four"), ["needs at least 1 items", "takes at most 3 characters"]);
});

test("a_choice_between_constants_is_an_enum_with_names", () => {
  const shape = shapeOf({ oneOf: [{ const: "a", title: "First" }, { const: 2 }] });
  assert.equal(shape.kind, "enum");
  assert.deepEqual(
    [shape.options, shape.labels],
    [
      ["a", 2],
      ["First", "2"],
    ],
  );
});

test("the_parts_of_a_union_have_names_and_the_fitting_one_is_chosen", () => {
  const schema = {
    $defs: { circle: object({ r: { type: "number" } }, ["r"]) },
    anyOf: [{ type: "null" }, { $ref: "#/$defs/circle" }, { type: "array" }, { title: "A word", type: "string" }],
  };
  const shape = shapeOf(schema);
  assert.deepEqual(
    shape.choices.map(({ label }) => label),
    ["null", "circle", "list", "A word"],
  );
  assert.deepEqual(
    [null, { r: 1 }, [], "x"].map((value) => draftOf(shape, value).choice),
    [0, 1, 2, 3],
  );
});

test("a_schema_that_contains_itself_or_nothing_but_references_ends", () => {
  const tree = { ...object({ children: { type: "array", items: { $ref: "#" } } }) };
  const shape = shapeOf(tree);
  const child = item(shape.fields[0].shape());
  assert.deepEqual(valueOf(shape, { fields: { children: { items: [child] } } }).value, { children: [{}] });
  assert.equal(
    shapeOf({ $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } } }).kind,
    "any",
  );
  assert.equal(shapeOf({ $ref: "https://example.com/schema" }).kind, "any");
});

test("the_form_of_a_schema_that_contains_itself_ends_where_it_begins_anew", () => {
  // As Python writes `next: Node | None` without a default.
  const node = object({ value: { type: "integer" }, next: { anyOf: [{ $ref: "#/$defs/Node" }, { type: "null" }] } }, [
    "value",
    "next",
  ]);
  const list = { $ref: "#/$defs/Node", $defs: { Node: node } };
  assert.deepEqual(draftOf(shapeOf(list)).fields.next, { choice: 1, drafts: { 1: {} } }, "nothing follows");
  const two = { value: 1, next: { value: 2, next: null } };
  assert.deepEqual(through(list, two), { value: two, problems: [] });
  const endless = object({ child: { $ref: "#" } }, ["child"]);
  const { problems } = valueOf(shapeOf(endless), draftOf(shapeOf(endless)));
  assert.deepEqual(problems, [{ path: "/child", message: "is needed" }]);
  const byDefault = object({ a: { ...object({ b: { $ref: "#/properties/a" } }), default: {} } });
  assert.deepEqual(valueOf(shapeOf(byDefault), draftOf(shapeOf(byDefault))).value, { a: {} });
  const nothingElse = [{ anyOf: [{ $ref: "#" }] }, { anyOf: [{ $ref: "#" }, { $ref: "#" }] }];
  for (const odd of [...nothingElse, object({ a: { $ref: "#/%zz" } }, ["a"])]) {
    assert.equal(valueOf(shapeOf(odd), draftOf(shapeOf(odd))).problems.length, 1, JSON.stringify(odd));
    assert.ok(draftOf(shapeOf(odd), 1));
  }
});

test("what_no_form_can_express_is_typed_as_json", () => {
  for (const schema of [true, {}, null, [], "x", { type: "object", additionalProperties: true }, { not: {} }]) {
    assert.equal(shapeOf(schema).kind, "any", JSON.stringify(schema));
  }
  const shape = shapeOf({});
  assert.deepEqual(valueOf(shape, { text: '{"a": 1}' }).value, { a: 1 });
  assert.match(valueOf(shape, { text: "word" }).problems[0].message, /is not JSON/);
});
