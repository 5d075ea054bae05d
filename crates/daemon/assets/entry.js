// A server's entry in a configuration file, and the form in which it is edited. Pure.

import { json } from "./format.js";
import { visible } from "./visible.js";

/**
 * The content of the form: lines of text, as the user typed them.
 * @typedef {object} EntryForm
 * @property {"stdio" | "http"} transport
 * @property {string} type the entry's own word for its transport, if it has the same meaning
 * @property {string} command
 * @property {string} args one on each line, or
 * @property {boolean} isList all of them as a JSON list, where lines cannot hold them
 * @property {string} cwd
 * @property {Pair[]} env
 * @property {string} url
 * @property {Pair[]} headers
 * @property {string} others all other fields of the entry, as JSON
 */

/** @typedef {{name: string, value: string}} Pair */

/** What the API writes in place of a hidden value. */
export const HIDDEN = "***";

/** @returns {EntryForm} */
export const emptyForm = () => ({
  transport: "stdio",
  type: "",
  command: "",
  args: "",
  isList: false,
  cwd: "",
  env: [],
  url: "",
  headers: [],
  others: "",
});

/**
 * Returns the form of an entry. A value that its field cannot hold unchanged goes to the other fields, so that nothing is lost.
 * @param {Api.Entry} entry
 * @returns {EntryForm}
 */
export function formOf(entry) {
  const args = Array.isArray(entry.args) ? entry.args : null;
  const isList = args !== null && !(args.length > 0 && args.every(isLine));
  /** @type {EntryForm} */
  const form = {
    transport: entry.url === undefined || entry.url === null ? "stdio" : "http",
    type: string(entry.type),
    command: string(entry.command),
    args: args === null ? "" : isList ? json(args) : args.join("\n"),
    isList,
    cwd: string(entry.cwd),
    env: pairs(entry.env),
    url: string(entry.url),
    headers: pairs(entry.headers),
    others: "",
  };
  const inFields = fieldsOf(form);
  const rest = Object.entries(entry).filter(([name, value]) => JSON.stringify(inFields[name]) !== JSON.stringify(value));
  if (rest.length === 0) return form;
  const empty = emptyForm();
  const without = Object.fromEntries(rest.map(([name]) => [name, empty[/** @type {keyof EntryForm} */ (name)]]));
  return { ...form, ...without, others: json(Object.fromEntries(rest)) };
}

/** Whether an argument can stand on a line of its own, where it is seen as it is. @param {unknown} arg */
const isLine = (arg) => typeof arg === "string" && arg !== "" && !/[\r\n]/.test(arg) && visible(arg) === arg;

/** Whether a `type` says only what the rest of the entry says, too. @param {EntryForm} form */
const isUsual = ({ type, transport }) =>
  transport === "stdio" ? type === "stdio" : type === "http" || type === "streamable-http";

/** @param {unknown} value */
const string = (value) => (typeof value === "string" ? value : "");

/** @param {unknown} map @returns {Pair[]} */
function pairs(map) {
  if (typeof map !== "object" || map === null) return [];
  return Object.entries(map).map(([name, value]) => ({ name, value: String(value) }));
}

/**
 * Returns the entry of a form.
 * @param {EntryForm} form
 * @returns {{entry: Api.Entry} | {problem: string, field: string}}
 */
export function entryOf(form) {
  const others = rest(form.others);
  if (others === null)
    return { problem: 'other settings must be a JSON object, such as {"timeout": 60000}', field: "others" };
  const wrong = form.transport === "stdio" ? wrongInProgram(form) : wrongInAddress(form);
  return wrong ?? { entry: { ...fieldsOf(form), ...others } };
}

/** @param {EntryForm} form */
function wrongInProgram(form) {
  if (!form.command.trim()) return { problem: "a command is needed, such as npx", field: "command" };
  return argsOf(form) === null ? { problem: 'the arguments must be a JSON list, such as ["-y"]', field: "args" } : null;
}

/** @param {EntryForm} form */
function wrongInAddress({ url }) {
  // An address may be a placeholder, so only a text that is certainly no address is refused.
  if (/^(https?:\/\/|\$\{)/i.test(url.trim())) return null;
  return { problem: "an address is needed that begins with https:// or http://", field: "url" };
}

/** What stands in the fields of a form, without its rest. @param {EntryForm} form @returns {Api.Entry} */
function fieldsOf(form) {
  const type = isUsual(form) && { type: form.type };
  if (form.transport === "http") return { ...type, url: form.url.trim(), ...named("headers", form.headers) };
  const args = argsOf(form) ?? [];
  return {
    ...type,
    command: form.command.trim(),
    ...((form.isList ? form.args.trim() !== "" : args.length > 0) && { args }),
    ...(form.cwd.trim() && { cwd: form.cwd.trim() }),
    ...named("env", form.env),
  };
}

/** The arguments; null when they are a list that cannot be read. @param {EntryForm} form @returns {unknown[] | null} */
function argsOf({ args, isList }) {
  if (!isList) return args.split("\n").filter((line) => line !== "");
  if (args.trim() === "") return [];
  try {
    const list = JSON.parse(args);
    return Array.isArray(list) ? list : null;
  } catch {
    return null;
  }
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
