// What an entry would run or contact, as lines that can be compared with an earlier agreement. Pure.

import { quoted, visibleJson } from "./visible.js";

/** @typedef {{label: string, value: string, before: string | null | undefined}} Line
 *   `before` is null for a new line; undefined for an unchanged one, and if there is no earlier agreement */

/** @type {[string, string][]} */
const LABELS = [
  ["command", "Runs"],
  ["args", "Arguments"],
  ["cwd", "In"],
  ["url", "Contacts"],
  ["env", "Environment"],
  ["headers", "Headers"],
  ["sandbox", "Sandbox"],
  ["container", "Container"],
];

/**
 * @param {Api.Entry} config
 * @param {Api.Entry | null | undefined} before
 * @param {string} folder the working folder of a program whose entry names none
 * @returns {Line[]}
 */
export function linesOf(config, before, folder) {
  const known = LABELS.map(([key]) => key);
  const others = [...new Set([...Object.keys(config), ...Object.keys(before ?? {})])].filter(
    (key) => !known.includes(key),
  );
  const keys = [...LABELS, ...others.map((key) => /** @type {[string, string]} */ ([key, key]))];
  return keys.flatMap(([key, label]) => {
    const now = written(config[key]);
    const then = before ? written(before[key]) : null;
    if (key === "cwd" && now === null && then === null && config.command)
      return [{ label, value: folder, before: undefined }];
    if (now === null && then === null) return [];
    const changed = before ? now !== then : false;
    return [{ label, value: now ?? "(no longer there)", before: changed ? then : undefined }];
  });
}

/**
 * Returns a value as text to read: a list has one item on each line, and quotes show where an item ends.
 * @param {unknown} value
 * @returns {string | null}
 */
function written(value) {
  if (value === undefined || value === null) return null;
  if (Array.isArray(value)) return value.length === 0 ? null : value.map(one).join("\n");
  if (typeof value === "object") {
    const entries = Object.entries(value);
    return entries.length === 0 ? null : entries.map(([name, value]) => `${quoted(name)}=${one(value)}`).join("\n");
  }
  return one(value);
}

/** @param {unknown} value */
const one = (value) => (typeof value === "string" ? quoted(value) : visibleJson(JSON.stringify(value)));
