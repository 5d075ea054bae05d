// JSON that keeps each number exactly as it was written. JavaScript's numbers have 53 bits and no spelling: they would change
// `9007199254740993` to another number and `1.0` to `1`, although a user approves a call by the numbers on the page. Pure.

/**
 * Functions of newer browsers. Without them, numbers are rounded.
 * @type {{rawJSON?: (text: string) => unknown, isRawJSON?: (value: unknown) => boolean}}
 */
const { rawJSON, isRawJSON } = /** @type {any} */ (JSON);

/** Members of the daemon's answers whose values come from servers and callers; they are shown and sent on unchanged. */
const FOREIGN = ["arguments", "const", "default", "enum", "input", "structured"];

/** Matches text that may have a number which JavaScript would change. */
const SUSPICIOUS = /\d{16}|\d[.eE]/;

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** Whether this browser can send whole numbers of any length. */
export const isExact = rawJSON !== undefined;

/**
 * Returns a number that keeps its spelling, if JavaScript would write it in another way.
 * @param {string} text
 * @returns {unknown}
 */
export function exactNumber(text) {
  const value = Number(text);
  return rawJSON === undefined || String(value) === text || !NUMBER.test(text) ? value : rawJSON(text);
}

/** @param {unknown} value @returns {value is {rawJSON: string}} */
export const isExactNumber = (value) => isRawJSON?.(value) ?? false;

/** Reads JSON, and keeps each number as it is written. @param {string} text @returns {any} */
export function parseExact(text) {
  if (rawJSON === undefined || !SUSPICIOUS.test(text)) return JSON.parse(text);
  return JSON.parse(
    text,
    /** @type {any} */ (
      (/** @type {string} */ _, /** @type {unknown} */ value, /** @type {{source: string}} */ { source }) =>
        typeof value === "number" ? exactNumber(source) : value
    ),
  );
}

/** Reads an answer of the daemon: its own numbers as numbers, and those of servers and callers as they are written. @param {string} text @returns {any} */
export function parse(text) {
  return SUSPICIOUS.test(text) ? counting(parseExact(text)) : JSON.parse(text);
}

/** @param {any} value @returns {any} */
function counting(value) {
  if (isExactNumber(value)) return Number(value.rawJSON);
  if (Array.isArray(value)) return value.map(counting);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value);
  return Object.fromEntries(members.map(([name, value]) => [name, FOREIGN.includes(name) ? value : counting(value)]));
}

/** Returns an exact number as a number of JavaScript; other values unchanged. @param {unknown} value @returns {unknown} */
export const counted = (value) => (isExactNumber(value) ? Number(value.rawJSON) : value);
