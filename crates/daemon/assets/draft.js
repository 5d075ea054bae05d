// Drafts: what a user has typed and chosen in a form, and the value that it stands for. Pure.

import { counted, exactNumber, isExact, isExactNumber, parseExact } from "./exact-json.js";
import { json } from "./format.js";

/** @typedef {import("./schema.js").Shape} Shape */

/**
 * The state of one field. It keeps text as the user typed it, even while that is not a valid value.
 * @typedef {object} Draft
 * @property {string} [text] of a text, a number, or any value as JSON
 * @property {boolean} [on] of a boolean
 * @property {number} [choice] of an enum or a union: the index of what is chosen, -1 when nothing is
 * @property {Record<string, Draft | null>} [fields] of an object; null for a field that is left out
 * @property {Record<string, unknown>} [others] of an object: fields that its schema does not name, which are kept as they are
 * @property {Draft[]} [items] of an array
 * @property {Record<number, Draft>} [drafts] of a union: one for each choice that was shown, so that a user can go back to it
 */

/** @typedef {{path: string, message: string}} Problem */

/** The origins of the shapes around a shape. A schema may contain itself, and its form then ends where it begins anew. @typedef {(object | undefined)[]} Around */

/** Whether a shape contains itself without an end, unless a value ends it. @param {Shape} shape @param {Around} around */
const isAgain = ({ origin }, around) => origin !== undefined && around.includes(origin);

/**
 * Returns the draft with which a form begins: of the given value, else of the schema's default, else an empty one.
 * @param {Shape} shape
 * @param {unknown} [value]
 * @param {Around} [around]
 * @returns {Draft}
 */
export function draftOf(shape, value = shape.preset, around = []) {
  switch (shape.kind) {
    case "string":
      return { text: typeof value === "string" ? value : "" };
    case "number":
    case "integer":
      return { text: isExactNumber(value) ? value.rawJSON : typeof value === "number" ? String(value) : "" };
    case "boolean":
      return { on: value === true };
    case "enum":
      return { choice: (shape.options ?? []).findIndex((option) => isSame(option, value)) };
    case "object":
      return object(shape, value, [...around, shape.origin]);
    case "array": {
      const inside = [...around, shape.origin];
      return { items: Array.isArray(value) ? value.map((one) => item(shape, one, inside)) : [] };
    }
    case "union":
      return union(shape, value, [...around, shape.origin]);
    case "any":
      return { text: value === undefined ? "" : json(value) };
    default:
      return {};
  }
}

/** The draft of a new item of a list. @param {Shape} shape of the list @param {unknown} [value] @param {Around} [around] */
export const item = (shape, value, around) => draftOf(shape.item?.() ?? ANY, value, around);

/** @type {Shape} */
const ANY = { kind: "any", title: "", description: "" };

/** @param {Shape} shape @param {unknown} value @param {Around} around with the shape itself @returns {Draft} */
function object(shape, value, around) {
  const given = isObject(value) ? value : {};
  /** @type {Record<string, Draft | null>} */
  const fields = {};
  for (const { name, required, shape: part } of shape.fields ?? []) {
    const inner = part();
    const isGiven = Object.hasOwn(given, name);
    const own = isGiven ? given[name] : inner.preset;
    // An optional field is left out at first, unless it is a line of text, which can stay empty.
    const isShown = isGiven || isLine(inner) || ((required || own !== undefined) && !isAgain(inner, around));
    fields[name] = isShown ? draftOf(inner, own, around) : null;
  }
  const others = Object.fromEntries(Object.entries(given).filter(([name]) => !Object.hasOwn(fields, name)));
  return { fields, others };
}

/** Whether an empty field of the shape means that the field is left out. @param {Shape} shape */
export const isLine = ({ kind }) =>
  kind === "string" || kind === "number" || kind === "integer" || kind === "enum" || kind === "any";

/** @param {Shape} shape @param {unknown} value @param {Around} around with the shape itself @returns {Draft} */
function union(shape, value, around) {
  const parts = (shape.choices ?? []).map((part) => part.shape());
  const fits = value === undefined ? -1 : parts.findIndex((part) => isLike(part, value));
  const choice = fits < 0 ? parts.findIndex((part) => !isAgain(part, around)) : fits;
  if (choice < 0) return { choice, drafts: {} };
  return { choice, drafts: { [choice]: draftOf(parts[choice], fits < 0 ? undefined : value, around) } };
}

/** Whether a value could be of a shape. Looks only at its kind and at required fields. @param {Shape} shape @param {unknown} value @param {Around} [around] @returns {boolean} */
function isLike(shape, value, around = []) {
  switch (shape.kind) {
    case "integer":
      return Number.isInteger(counted(value));
    case "null":
      return value === null;
    case "enum":
    case "const":
      return (shape.options ?? []).some((option) => isSame(option, value));
    case "array":
      return Array.isArray(value);
    case "object":
      return (
        isObject(value) && (shape.fields ?? []).every(({ name, required }) => !required || Object.hasOwn(value, name))
      );
    case "union":
      if (isAgain(shape, around)) return false;
      return (shape.choices ?? []).some((part) => isLike(part.shape(), value, [...around, shape.origin]));
    case "any":
      return true;
    default:
      return typeof counted(value) === shape.kind;
  }
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** @param {unknown} a @param {unknown} b */
const isSame = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/**
 * Returns the value that a draft stands for, and what is wrong with the draft. The value is `undefined` for a field that is
 * left out.
 * @param {Shape} shape
 * @param {Draft} draft
 * @param {boolean} [required]
 * @param {string} [path] of the field (a JSON pointer), for the problems
 * @returns {{value: unknown, problems: Problem[]}}
 */
export function valueOf(shape, draft, required = true, path = "") {
  const fine = (/** @type {unknown} */ value) => ({ value, problems: [] });
  const bad = (/** @type {string} */ message) => ({ value: undefined, problems: [{ path, message }] });
  const missing = () => (required ? bad("is needed") : fine(undefined));
  switch (shape.kind) {
    case "string":
      return draft.text ? checked(shape, draft.text, fine, bad) : missing();
    case "number":
    case "integer":
      return draft.text?.trim() ? number(shape, draft.text.trim(), fine, bad) : missing();
    case "boolean":
      return fine(draft.on === true);
    case "null":
      return fine(null);
    case "const":
      return fine(shape.options?.[0]);
    case "enum":
      return (draft.choice ?? -1) < 0 ? missing() : fine(shape.options?.[draft.choice ?? -1]);
    case "object":
      return whole(shape, draft, path);
    case "array":
      return list(shape, draft, path);
    case "union": {
      const choice = draft.choice ?? 0;
      const part = shape.choices?.[choice]?.shape() ?? ANY;
      return valueOf(part, draft.drafts?.[choice] ?? draftOf(part), required, path);
    }
    default:
      return draft.text?.trim() ? parsed(draft.text, fine, bad) : missing();
  }
}

/** @typedef {(value: unknown) => {value: unknown, problems: Problem[]}} Fine */
/** @typedef {(message: string) => {value: unknown, problems: Problem[]}} Bad */

/** The value of a text. @param {Shape} shape @param {string} text @param {Fine} fine @param {Bad} bad */
function checked({ bounds }, text, fine, bad) {
  const length = [...text].length;
  if (bounds?.least !== undefined && length < bounds.least) return bad(`needs at least ${bounds.least} characters`);
  if (bounds?.most !== undefined && length > bounds.most) return bad(`takes at most ${bounds.most} characters`);
  return fine(text);
}

/** The value of a number. @param {Shape} shape @param {string} text @param {Fine} fine @param {Bad} bad */
function number({ kind, bounds }, text, fine, bad) {
  const value = Number(text);
  if (!Number.isFinite(value)) return bad("is not a number");
  if (kind === "integer" && !Number.isInteger(value)) return bad("is not a whole number");
  if (bounds?.least !== undefined && value < bounds.least) return bad(`must be at least ${bounds.least}`);
  if (bounds?.most !== undefined && value > bounds.most) return bad(`must be at most ${bounds.most}`);
  if (!isExact && kind === "integer" && !Number.isSafeInteger(value)) return bad("is too long for this browser");
  return fine(exactNumber(text));
}

/** The value of JSON that the user typed. @param {string} text @param {Fine} fine @param {Bad} bad */
function parsed(text, fine, bad) {
  try {
    return fine(parseExact(text));
  } catch {
    return bad("is not JSON (a text is written in quotes)");
  }
}

/** The value of an object. @param {Shape} shape @param {Draft} draft @param {string} path */
function whole(shape, draft, path) {
  /** @type {Record<string, unknown>} */
  const value = { ...draft.others };
  /** @type {Problem[]} */
  const problems = [];
  for (const { name, required, shape: part } of shape.fields ?? []) {
    const own = draft.fields?.[name];
    if (!own) {
      if (required) problems.push({ path: below(path, name), message: "is needed" });
      continue;
    }
    const found = valueOf(part(), own, required, below(path, name));
    problems.push(...found.problems);
    if (found.value !== undefined) value[name] = found.value;
  }
  return { value, problems };
}

/** The value of a list. @param {Shape} shape @param {Draft} draft @param {string} path */
function list(shape, draft, path) {
  const inner = shape.item?.() ?? ANY;
  const items = draft.items ?? [];
  const found = items.map((one, index) => valueOf(inner, one, true, below(path, String(index))));
  const problems = found.flatMap((one) => one.problems);
  const { least, most } = shape.bounds ?? {};
  if (least !== undefined && items.length < least) problems.push({ path, message: `needs at least ${least} items` });
  if (most !== undefined && items.length > most) problems.push({ path, message: `takes at most ${most} items` });
  return { value: found.map((one) => one.value), problems };
}

/** The path of a part of a field. @param {string} path @param {string} name */
export const below = (path, name) => `${path}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
