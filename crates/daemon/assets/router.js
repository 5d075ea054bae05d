// Where we are: everything is one page, and the fragment of its address says which part of it is shown.

import { signal } from "./html.js";

/**
 * @typedef {object} Place
 * @property {string[]} path the decoded parts of the path
 * @property {Record<string, string>} query
 */

/**
 * Reads a fragment.
 * @param {string} hash with its `#`
 * @returns {Place}
 */
export function placeOf(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const query = Object.fromEntries(new URLSearchParams(search));
  return {
    path: path
      .split("/")
      .filter((part) => part !== "")
      .map(decoded),
    query,
  };
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * Writes a fragment.
 * @param {string[]} path
 * @param {Record<string, string | undefined>} [query] what is undefined or empty is left out
 */
export function hashOf(path, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value);
  const text = search.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

/** Where we are now. */
export const place = signal(placeOf(""));

/** How often the user went from one place to another since the page was loaded. */
export const moves = signal(0);

const look = () => {
  place.value = placeOf(location.hash);
};

/** Follows the address. */
export function startRouter() {
  addEventListener("hashchange", () => {
    moves.value += 1;
    look();
  });
  look();
}

/**
 * Goes somewhere.
 * @param {string[]} path
 * @param {Record<string, string | undefined>} [query]
 */
export function go(path, query) {
  location.hash = hashOf(path, query);
  // The event comes later: until then, a page would be shown with what is left of the place before.
  look();
}

/**
 * Changes the query of the place without a step in the history: for what is typed into a search.
 * @param {Record<string, string | undefined>} query
 */
export function refine(query) {
  const { path } = place.peek();
  history.replaceState(null, "", hashOf(path, query));
  look();
}

/**
 * Gives the place its own address without a step in the history: for what got a name after it was begun.
 * @param {string[]} path
 */
export function settle(path) {
  history.replaceState(null, "", hashOf(path));
  look();
}

/** Where a place is kept while the user is at another site, whose way back has no fragment. */
const KEPT = "toolrack.place";

/** Keeps the place for [backToPlace]. */
export function keepPlace() {
  sessionStorage.setItem(KEPT, location.hash);
}

/** Goes to the place that was kept, if any. */
export function backToPlace() {
  const kept = sessionStorage.getItem(KEPT);
  sessionStorage.removeItem(KEPT);
  if (!kept?.startsWith("#/") || location.hash.length > 2) return;
  history.replaceState(null, "", kept);
  look();
}
