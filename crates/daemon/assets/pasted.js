// Finds entries in text that the user pasted: a whole file, a part of one, or a single entry. Comments and trailing commas are
// accepted, as the programs with such files accept them. Pure.

/** @typedef {{name: string, entry: Api.Entry}} Found */

/**
 * @param {string} text
 * @returns {{found: Found[]} | {problem: string}}
 */
export function parsePasted(text) {
  if (text.trim() === "") return { problem: "nothing was pasted yet" };
  // READMEs often show `"name": { … }` without the braces around it.
  const value = parsed(withoutComments(text)) ?? parsed(withoutComments(`{${text}\n}`));
  if (value === undefined) return { problem: "this is not JSON" };
  if (!isObject(value)) return { problem: 'an object is needed, such as {"mcpServers": {…}}' };
  const found = entriesIn(value);
  return found.length > 0 ? { found } : { problem: "there is no entry with a `command` or a `url` in it" };
}

/** @param {Record<string, unknown>} value @returns {Found[]} */
function entriesIn(value) {
  const servers = value.mcpServers ?? value.servers ?? value.mcp;
  if (isObject(servers)) return entriesIn(servers);
  if (isEntry(value)) {
    const { name, ...entry } = value;
    return [{ name: typeof name === "string" ? name : "", entry }];
  }
  return Object.entries(value).flatMap(([name, entry]) => (isEntry(entry) ? [{ name, entry }] : []));
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isEntry = (value) => isObject(value) && (typeof value.command === "string" || typeof value.url === "string");

/** @param {string} text @returns {unknown} undefined if it is not JSON */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Removes comments and trailing commas from JSON, and leaves strings unchanged.
 * @param {string} text
 */
export function withoutComments(text) {
  const token = /"(?:[^"\\]|\\.)*"|\/\/[^\n]*|\/\*[\s\S]*?\*\/|,(?=(?:\s|\/\/[^\n]*|\/\*[\s\S]*?\*\/)*[}\]])/g;
  return text.replace(token, (found) => (found.startsWith('"') ? found : ""));
}
