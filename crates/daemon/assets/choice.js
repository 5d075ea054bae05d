// Who answers in a conversation and with which tools, remembered for each conversation by this browser.

/**
 * @typedef {object} Choice
 * @property {string} model `provider/name`; empty for the one that is configured
 * @property {string[] | null} servers null for all
 * @property {string} tools patterns, as they were typed; empty for all
 */

/** @type {Choice} */
export const EVERYTHING = { model: "", servers: null, tools: "" };

const PLACE = "toolrack.chat";

/** Conversations that are remembered; the one that was chosen for first is forgotten first. */
const MOST = 100;

/** The patterns in a text: commas and white space stand between them. @param {string} text */
export const patternsIn = (text) => text.split(/[\s,]+/).filter((pattern) => pattern !== "");

/** What a request says of a choice: nothing where all is as it is configured. @param {Choice} choice */
export function asked({ model, servers, tools }) {
  const patterns = patternsIn(tools);
  return {
    ...(model.trim() && { model: model.trim() }),
    ...(servers && { servers }),
    ...(patterns.length > 0 && { tools: patterns }),
  };
}

/** @param {unknown} kept @returns {[string, Choice][]} */
function entriesIn(kept) {
  if (!Array.isArray(kept)) return [];
  return kept.filter((entry) => Array.isArray(entry) && typeof entry[0] === "string" && isChoice(entry[1]));
}

/** @param {any} choice */
const isChoice = (choice) =>
  typeof choice?.model === "string" &&
  typeof choice.tools === "string" &&
  (choice.servers === null ||
    (Array.isArray(choice.servers) && choice.servers.every((/** @type {unknown} */ name) => typeof name === "string")));

/** @param {Pick<Storage, "getItem">} storage */
function entries(storage) {
  try {
    return entriesIn(JSON.parse(storage.getItem(PLACE) ?? "[]"));
  } catch {
    return [];
  }
}

/** What was chosen for a conversation. @param {string} session @param {Pick<Storage, "getItem">} [storage] */
export function chosenFor(session, storage = localStorage) {
  return entries(storage).find(([id]) => id === session)?.[1] ?? EVERYTHING;
}

/** @param {string} session @param {Choice} choice @param {Pick<Storage, "getItem" | "setItem">} [storage] */
export function remember(session, choice, storage = localStorage) {
  const others = entries(storage).filter(([id]) => id !== session);
  try {
    storage.setItem(PLACE, JSON.stringify([...others, [session, choice]].slice(-MOST)));
  } catch {
    // A browser that keeps nothing asks again.
  }
}
