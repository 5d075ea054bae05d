// A server's entry in a configuration file, and the form in which it is edited. Pure.

import { json } from "./format.js";

/**
 * What the form holds: lines of text, as they are typed.
 * @typedef {object} EntryForm
 * @property {"stdio" | "http"} transport
 * @property {string} command
 * @property {string} args one on each line
 * @property {string} cwd
 * @property {Pair[]} env
 * @property {string} url
 * @property {Pair[]} headers
 * @property {string} others what else the entry has, as JSON
 */

/** @typedef {{name: string, value: string}} Pair */

/** How the API writes a value that it does not tell. */
export const HIDDEN = "***";

/** @type {readonly string[]} */
const IN_FORM = ["type", "command", "args", "cwd", "env", "url", "headers"];

/** @returns {EntryForm} */
export const emptyForm = () => ({
  transport: "stdio",
  command: "",
  args: "",
  cwd: "",
  env: [],
  url: "",
  headers: [],
  others: "",
});

/**
 * The form of an entry. What the form has no field for goes to its rest, so that nothing is lost.
 * @param {Api.Entry} entry
 * @returns {EntryForm}
 */
export function formOf(entry) {
  const rest = Object.entries(entry).filter(
    ([name, value]) => !IN_FORM.includes(name) || (name === "type" && !isUsual(value)),
  );
  return {
    transport: entry.url === undefined || entry.url === null ? "stdio" : "http",
    command: string(entry.command),
    args: Array.isArray(entry.args) ? entry.args.map(String).join("\n") : "",
    cwd: string(entry.cwd),
    env: pairs(entry.env),
    url: string(entry.url),
    headers: pairs(entry.headers),
    others: rest.length > 0 ? json(Object.fromEntries(rest)) : "",
  };
}

/** Whether a `type` says nothing that the rest of the entry does not say. @param {unknown} type */
const isUsual = (type) => type === "stdio" || type === "http" || type === "streamable-http";

/** @param {unknown} value */
const string = (value) => (typeof value === "string" ? value : "");

/** @param {unknown} map @returns {Pair[]} */
function pairs(map) {
  if (typeof map !== "object" || map === null) return [];
  return Object.entries(map).map(([name, value]) => ({ name, value: String(value) }));
}

/**
 * The entry of a form.
 * @param {EntryForm} form
 * @returns {{entry: Api.Entry} | {problem: string, field: string}}
 */
export function entryOf(form) {
  const others = rest(form.others);
  if (others === null)
    return { problem: 'other settings must be a JSON object, such as {"timeout": 60000}', field: "others" };
  return form.transport === "stdio" ? program(form, others) : address(form, others);
}

/** @param {EntryForm} form @param {Record<string, unknown>} others */
function program(form, others) {
  const command = form.command.trim();
  if (!command) return { problem: "a command is needed, such as npx", field: "command" };
  const args = form.args.split("\n").filter((line) => line !== "");
  const entry = { command, ...(args.length > 0 && { args }), ...(form.cwd.trim() && { cwd: form.cwd.trim() }) };
  return { entry: { ...entry, ...named("env", form.env), ...others } };
}

/** @param {EntryForm} form @param {Record<string, unknown>} others */
function address(form, others) {
  const url = form.url.trim();
  // An address may be a placeholder as a whole, so only what is surely none is refused.
  if (!/^(https?:\/\/|\$\{)/i.test(url))
    return { problem: "an address is needed that begins with https:// or http://", field: "url" };
  return { entry: { url, ...named("headers", form.headers), ...others } };
}

/** @param {string} key @param {Pair[]} list */
function named(key, list) {
  const given = list.filter(({ name }) => name.trim() !== "").map(({ name, value }) => [name.trim(), value]);
  return given.length > 0 ? { [key]: Object.fromEntries(given) } : {};
}

/** @param {string} text @returns {Record<string, unknown> | null} */
function rest(text) {
  if (text.trim() === "") return {};
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** The names of the values that the API did not tell, and that a copy of the entry therefore lacks. @param {Api.Entry} entry */
export function hiddenIn(entry) {
  return [...pairs(entry.env), ...pairs(entry.headers)]
    .filter(({ value }) => value.includes(HIDDEN))
    .map(({ name }) => name);
}
