// Turns a JSON Schema into the fields of a form. Their content is in draft.js. Pure.

import { counted } from "./exact-json.js";

/**
 * The form of a part of a schema. `any` is a part that no form can express: the user types it as JSON.
 * @typedef {object} Shape
 * @property {"string" | "number" | "integer" | "boolean" | "null" | "enum" | "const" | "object" | "array" | "union" | "any"} kind
 * @property {string} title empty if the schema has none
 * @property {string} description
 * @property {unknown} [preset] the schema's default
 * @property {unknown[]} [options] of an enum; the one value of a const
 * @property {string[]} [labels] of the options, if the schema names them
 * @property {Field[]} [fields] of an object
 * @property {boolean} [open] whether an object takes other members, too
 * @property {() => Shape} [item] of an array; a function, since schemas may contain themselves
 * @property {{label: string, shape: () => Shape}[]} [choices] of a union
 * @property {string} [format] of a string
 * @property {{least?: number, most?: number}} [bounds] of a number, of a text's length, of an array's length
 * @property {object} [origin] the part of the schema, the same object each time: a shape inside of one with its origin begins anew
 */

/** @typedef {{name: string, required: boolean, shape: () => Shape}} Field */

/** The most references that are followed in one step, so that a schema of nothing but references ends. */
const MOST_REFERENCES = 32;

/**
 * @param {any} schema
 * @param {any} [root] where `$ref` points into
 * @param {number} [steps] how many choices of one part were replaced by that part
 * @returns {Shape}
 */
export function shapeOf(schema, root = schema, steps = 0) {
  const { found, origin } = resolved(schema, root);
  const isObject = found && typeof found === "object" && !Array.isArray(found);
  if (!isObject || steps > MOST_REFERENCES) return { kind: "any", title: "", description: "" };
  const about = { title: text(found.title), description: text(found.description), preset: found.default, origin };
  return { ...about, ...kindOf(found, root, steps) };
}

/** @param {unknown} value */
const text = (value) => (typeof value === "string" ? value : "");

/** An option as text. @param {unknown} value */
const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** A bound as a number to compare with. @param {any} value @returns {any} */
const bound = (value) => counted(value);

/**
 * Follows `$ref`, and replaces an `allOf` with one part by that part. Returns also the part of the schema at which this ends.
 * @param {any} schema
 * @param {any} root
 * @returns {{found: any, origin?: any}} `found` is null for a reference that leads nowhere
 */
function resolved(schema, root) {
  let [found, origin] = [schema, schema];
  for (let steps = 0; steps < MOST_REFERENCES; steps += 1) {
    if (typeof found?.$ref === "string") {
      const { $ref, ...beside } = found;
      origin = pointedAt($ref, root);
      if (!origin || typeof origin !== "object") return { found: null };
      found = { ...origin, ...beside };
    } else if (Array.isArray(found?.allOf) && found.allOf.length === 1 && typeof found.allOf[0] === "object") {
      const { allOf, ...beside } = found;
      [origin] = allOf;
      found = { ...origin, ...beside };
    } else {
      return { found, origin };
    }
  }
  return { found: null };
}

/** A part of a JSON pointer in a URL. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {string} reference @param {any} root */
function pointedAt(reference, root) {
  if (!reference.startsWith("#")) return null;
  const parts = reference.slice(1).split("/").slice(1);
  let at = root;
  for (const part of parts) {
    const name = decoded(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (!at || typeof at !== "object" || !Object.hasOwn(at, name)) return null;
    at = at[name];
  }
  return at;
}

/**
 * @param {any} schema
 * @param {any} root
 * @param {number} steps
 * @returns {Pick<Shape, "kind"> & Partial<Shape>}
 */
function kindOf(schema, root, steps) {
  if (Object.hasOwn(schema, "const")) return { kind: "const", options: [schema.const] };
  if (Array.isArray(schema.enum) && schema.enum.length > 0) {
    const labels = schema.enumNames;
    return { kind: "enum", options: schema.enum, labels: Array.isArray(labels) ? labels.map(shown) : undefined };
  }
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices) && choices.length > 0) return union(schema, choices, root, steps);
  const types = Array.isArray(schema.type) ? schema.type : [schema.type ?? guessed(schema)];
  if (types.length !== 1) {
    return { kind: "union", choices: types.map((/** @type {string} */ type) => choice({ ...schema, type }, root)) };
  }
  return ofType(types[0], schema, root);
}

/** A schema without a type that has what only one type has. @param {any} schema */
function guessed(schema) {
  if (schema.properties) return "object";
  return schema.items ? "array" : "any";
}

/**
 * Turns a choice between constants into an enum with titles, and every other choice into a union.
 * @param {any} schema
 * @param {any[]} choices
 * @param {any} root
 * @param {number} steps
 */
function union(schema, choices, root, steps) {
  if (choices.every((one) => one && typeof one === "object" && Object.hasOwn(one, "const"))) {
    const labels = choices.map((one) => text(one.title) || shown(one.const));
    return { kind: /** @type {const} */ ("enum"), options: choices.map((one) => one.const), labels };
  }
  if (choices.length === 1) return { ...shapeOf(choices[0], root, steps + 1) };
  // Keywords beside the choice apply to each of its parts.
  const { anyOf, oneOf, title, description, default: preset, ...beside } = schema;
  const parts = choices.map((one) =>
    choice(
      beside.properties ? { ...beside, ...one, properties: { ...beside.properties, ...one?.properties } } : one,
      root,
    ),
  );
  return { kind: /** @type {const} */ ("union"), choices: parts };
}

/** @param {any} schema @param {any} root */
function choice(schema, root) {
  return { label: labelOf(schema, root), shape: () => shapeOf(schema, root) };
}

/** @param {any} schema @param {any} root */
function labelOf(schema, root) {
  const { found } = resolved(schema, root);
  const last = typeof schema?.$ref === "string" ? schema.$ref.split("/").pop() : "";
  if (!found || typeof found !== "object") return "JSON";
  if (Object.hasOwn(found, "const")) return JSON.stringify(found.const);
  if (Array.isArray(found.enum)) return text(found.title) || last || "one of a list";
  const type = Array.isArray(found.type) ? found.type.join(" or ") : (found.type ?? guessed(found));
  return text(found.title) || last || WORDS[type] || String(type);
}

/** @type {Record<string, string>} */
const WORDS = {
  string: "text",
  integer: "whole number",
  boolean: "yes or no",
  array: "list",
  null: "null",
  any: "JSON",
};

/**
 * @param {unknown} type
 * @param {any} schema
 * @param {any} root
 * @returns {Pick<Shape, "kind"> & Partial<Shape>}
 */
function ofType(type, schema, root) {
  switch (type) {
    case "string":
      return {
        kind: "string",
        format: text(schema.format),
        bounds: { least: bound(schema.minLength), most: bound(schema.maxLength) },
      };
    case "number":
    case "integer":
      return { kind: type, bounds: { least: bound(schema.minimum), most: bound(schema.maximum) } };
    case "boolean":
    case "null":
      return { kind: type };
    case "object":
      return object(schema, root);
    case "array": {
      const item = () => shapeOf(schema.items ?? {}, root);
      return { kind: "array", item, bounds: { least: bound(schema.minItems), most: bound(schema.maxItems) } };
    }
    default:
      return { kind: "any" };
  }
}

/** @param {any} schema @param {any} root @returns {Pick<Shape, "kind"> & Partial<Shape>} */
function object(schema, root) {
  const properties = schema.properties && typeof schema.properties === "object" ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  const fields = Object.entries(properties).map(([name, part]) => {
    return { name, required: required.includes(name), shape: () => shapeOf(part, root) };
  });
  // What has to be filled in comes first; sorting keeps the order of the schema otherwise.
  fields.sort((a, b) => Number(b.required) - Number(a.required));
  const open = schema.additionalProperties !== false;
  // An object about which nothing is known, or whose keys are free, is typed as JSON.
  return fields.length === 0 && open && schema.additionalProperties !== undefined
    ? { kind: "any" }
    : { kind: "object", fields, open };
}
