// The model that answers in a conversation, and its tools. This browser remembers both for each conversation.

import { lasting } from "./storage.js";

/**
 * @typedef {object} Choice
 * @property {string} model `provider/name`; empty for the configured one
 * @property {string[] | null} servers null for all
 * @property {string} tools patterns, as the user typed them; empty for all
 */

/** @type {Choice} */
export const EVERYTHING = { model: "", servers: null, tools: "" };

const PLACE = "toolrack.chat";

/** The most conversations that are remembered; the oldest choice is forgotten first. */
const MOST = 100;

/** Returns the patterns in a text, which commas and white space separate. @param {string} text */
export const patternsIn = (text) => text.split(/[\s,]+/).filter((pattern) => pattern !== "");

/** Returns the members of a request that a choice sets: none for what is left as configured. @param {Choice} choice */
export function requestOf({ model, servers, tools }) {
  const patterns = patternsIn(tools);
  return {
    ...(model.trim() && { model: model.trim() }),
    ...(servers && { servers }),
    ...(patterns.length > 0 && { tools: patterns }),
  };
}

/** @param {unknown} stored @returns {[string, Choice][]} */
function entriesIn(stored) {
  if (!Array.isArray(stored)) return [];
  return stored.filter((entry) => Array.isArray(entry) && typeof entry[0] === "string" && isChoice(entry[1]));
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

/** Returns the choice for a conversation. @param {string} session @param {Pick<Storage, "getItem">} [storage] */
export function chosenFor(session, storage = lasting) {
  return entries(storage).find(([id]) => id === session)?.[1] ?? EVERYTHING;
}

/** @param {string} session @param {Choice} choice @param {Pick<Storage, "getItem" | "setItem">} [storage] */
export function remember(session, choice, storage = lasting) {
  const others = entries(storage).filter(([id]) => id !== session);
  try {
    storage.setItem(PLACE, JSON.stringify([...others, [session, choice]].slice(-MOST)));
  } catch {
    // Without storage, the user chooses again next time.
  }
}
