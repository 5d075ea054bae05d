// Text that the user can copy into other programs. A hidden value, and a placeholder that only Toolrack knows, become a
// placeholder for an environment variable, which the user sets. Pure.

import { HIDDEN } from "./entry.js";

/** @typedef {"claude" | "vscode" | "codex"} Format */

/** The programs, each with the file into which the text belongs. @type {{format: Format, label: string, file: string}[]} */
export const FORMATS = [
  { format: "claude", label: "Claude Code", file: ".mcp.json" },
  { format: "vscode", label: "VS Code", file: ".vscode/mcp.json" },
  { format: "codex", label: "Codex", file: "~/.codex/config.toml" },
];

/**
 * A server's entry as another program writes it.
 * @param {Format} format
 * @param {string} name
 * @param {Api.Entry} entry as the API gives it, with hidden values
 */
export function entryFor(format, name, entry) {
  const shown = withPlaceholders(entry);
  switch (format) {
    case "claude":
      return `${JSON.stringify({ mcpServers: { [name]: typed(shown) } }, null, 2)}\n`;
    case "vscode":
      return `${JSON.stringify({ servers: { [name]: environment(typed(shown)) } }, null, 2)}\n`;
    case "codex":
      return codex(name, shown);
  }
}

/** The fields that all of the programs know. @type {readonly string[]} */
const COMMON = ["command", "args", "cwd", "env", "url", "headers"];

/**
 * Returns the fields that other programs know, with `${NAME}` in place of hidden values and of Toolrack's own placeholders.
 * @param {Api.Entry} entry
 * @returns {Record<string, any>}
 */
function withPlaceholders(entry) {
  const known = Object.entries(entry).filter(
    ([key, value]) => COMMON.includes(key) && value !== null && value !== undefined,
  );
  return Object.fromEntries(known.map(([key, value]) => [key, replaced(key, value)]));
}

/** Matches Toolrack's own placeholders, which no other program knows; and `$$`, so that `$${secret:NAME}` is none. */
const OWN = /\$\$|\$\{(?:secret|user):([^{}]*)\}/g;

/** @param {string | null} key `null` for an item of a list @param {any} value @returns {any} */
function replaced(key, value) {
  if (typeof value === "string") {
    const shown = value.replaceAll(HIDDEN, `\${${variable(key ?? "")}}`);
    return shown.replaceAll(OWN, (found, /** @type {string | undefined} */ own) => {
      if (own === undefined) return found;
      // Codex passes a variable on under its own name only.
      return `\${${variable(found === value ? (key ?? own) : own)}}`;
    });
  }
  if (Array.isArray(value)) return value.map((one) => replaced(null, one));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, replaced(name, one)]));
}

/** Returns a name for an environment variable. @param {string} name */
const variable = (name) =>
  name
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, "_")
    .replace(/^(?=\d)/, "_") || "SECRET";

/** @param {Record<string, any>} entry */
const typed = (entry) => ({ type: entry.url ? "http" : "stdio", ...entry });

/** VS Code writes environment variables as `${env:NAME}`. @param {any} value @returns {any} */
function environment(value) {
  if (typeof value === "string") return value.replace(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g, "${env:$1}");
  if (Array.isArray(value)) return value.map(environment);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, environment(one)]));
}

/**
 * Codex fills in no `${NAME}`; it passes environment variables on by their names.
 * @param {string} name
 * @param {Record<string, any>} entry
 */
function codex(name, entry) {
  const table = `mcp_servers.${/^[A-Za-z0-9_-]+$/.test(name) ? name : toml(name)}`;
  const lines = [`[${table}]`];
  for (const key of ["command", "args", "cwd", "url"]) if (key in entry) lines.push(`${key} = ${toml(entry[key])}`);
  const { passed, written } = parted(entry.env ?? {});
  if (passed.length > 0) lines.push(`env_vars = ${toml(passed)}`);
  const headers = parted(entry.headers ?? {}, true);
  const token = /^Bearer \$\{([A-Za-z_]\w*)\}$/.exec(headers.written.Authorization ?? "");
  if (token) {
    lines.push(`bearer_token_env_var = ${toml(token[1])}`);
    delete headers.written.Authorization;
  }
  lines.push(...section(`${table}.env`, written), ...section(`${table}.http_headers`, headers.written));
  lines.push(...section(`${table}.env_http_headers`, headers.from));
  return `${lines.join("\n")}\n`;
}

/**
 * Splits a map into values that are only a variable and all other values.
 * @param {Record<string, string>} map
 * @param {boolean} [renamed] whether a variable may have another name than the key
 */
function parted(map, renamed = false) {
  /** @type {string[]} */
  const passed = [];
  /** @type {Record<string, string>} */
  const from = {};
  /** @type {Record<string, string>} */
  const written = {};
  for (const [key, value] of Object.entries(map)) {
    const whole = /^\$\{([A-Za-z_]\w*)\}$/.exec(value)?.[1];
    if (whole && renamed) from[key] = whole;
    else if (whole === key) passed.push(key);
    else written[key] = value;
  }
  return { passed, from, written };
}

/** @param {string} table @param {Record<string, string>} map */
function section(table, map) {
  const lines = Object.entries(map).map(
    ([key, value]) => `${/^[A-Za-z0-9_-]+$/.test(key) ? key : toml(key)} = ${toml(value)}`,
  );
  return lines.length > 0 ? ["", `[${table}]`, ...lines] : [];
}

/** A string or a list of strings in TOML, whose basic strings escape as JSON's do. @param {string | string[]} value @returns {string} */
function toml(value) {
  if (Array.isArray(value)) return `[${value.map(toml).join(", ")}]`;
  return JSON.stringify(String(value)).replace(/\x7f/g, "\\u007f");
}

/**
 * Returns the command line that makes the same call.
 * @param {string} server
 * @param {string} tool
 * @param {unknown} args
 */
export function commandFor(server, tool, args) {
  const words = ["toolrack", "call", quoted(`${server}/${tool}`)];
  const given = typeof args === "object" && args !== null && !Array.isArray(args) ? Object.entries(args) : [];
  if (given.length > 0) words.push("--args", quoted(JSON.stringify(args)));
  return words.join(" ");
}

/** Quotes a word for a POSIX shell. @param {string} word */
export function quoted(word) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
