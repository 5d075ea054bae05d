// JSON whose numbers come out as they went in. A number of JavaScript has 53 bits and forgets how it was written:
// `9007199254740993` would become another number, and `1.0` a `1`, just where a person says yes to it. Pure.

/**
 * What newer browsers can do with JSON; the others round.
 * @type {{rawJSON?: (text: string) => unknown, isRawJSON?: (value: unknown) => boolean}}
 */
const { rawJSON, isRawJSON } = /** @type {any} */ (JSON);

/** Members of what the daemon says whose values are of others, and are shown or sent on as they are. */
const FOREIGN = ["arguments", "default", "input", "structured"];

/** Text that may hold a number which does not survive. */
const SUSPICIOUS = /\d{16}|\d[.eE]/;

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** Whether whole numbers of any length can be sent. */
export const isExact = rawJSON !== undefined;

/**
 * A number as it is written, where a number of JavaScript would be written in another way.
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

/** Reads what the daemon says: numbers to count with, and those of others as they are written. @param {string} text @returns {any} */
export function parse(text) {
  return SUSPICIOUS.test(text) ? counting(parseExact(text)) : JSON.parse(text);
}

/** @param {any} value @returns {any} */
function counting(value) {
  if (isExactNumber(value)) return Number(value.rawJSON);
  if (Array.isArray(value)) return value.map(counting);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value);
  return Object.fromEntries(members.map(([name, its]) => [name, FOREIGN.includes(name) ? its : counting(its)]));
}

/** The same with numbers to compare. @param {unknown} value @returns {unknown} */
export const counted = (value) => (isExactNumber(value) ? Number(value.rawJSON) : value);
