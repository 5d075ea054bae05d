// The place in the dashboard. The dashboard is one page, and the fragment of its address names the part that is shown.

import { signal } from "./html.js";
import { ofTab } from "./storage.js";

/**
 * @typedef {object} Place
 * @property {string[]} path the decoded parts of the path
 * @property {Record<string, string>} query
 */

/**
 * Parses a fragment.
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
 * @param {Record<string, string | undefined>} [query] undefined and empty values are left out
 */
export function hashOf(path, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value);
  const text = search.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

/** The current place. */
export const place = signal(placeOf(""));

/** How often the user has changed places since the page was loaded. */
export const moves = signal(0);

const look = () => {
  place.value = placeOf(location.hash);
};

/** Follows changes of the address. */
export function startRouter() {
  addEventListener("hashchange", () => {
    moves.value += 1;
    look();
  });
  look();
}

/**
 * Goes to a place.
 * @param {string[]} path
 * @param {Record<string, string | undefined>} [query]
 */
export function go(path, query) {
  location.hash = hashOf(path, query);
  // The browser's event comes later; until then, the page would show the old place.
  look();
}

/**
 * Changes the query of the place without a step in the browser's history, as the user types into a search.
 * @param {Record<string, string | undefined>} query
 */
export function refine(query) {
  const { path } = place.peek();
  history.replaceState(null, "", hashOf(path, query));
  look();
}

/**
 * Changes the address of the place without a step in the browser's history, for a page that gets its address later.
 * @param {string[]} path
 */
export function settle(path) {
  history.replaceState(null, "", hashOf(path));
  look();
}

/** The key of the place that is stored while the user signs in at another site, which returns without a fragment. */
const KEPT = "toolrack.place";

/** Stores the place for [backToPlace]. */
export function keepPlace() {
  ofTab.setItem(KEPT, location.hash);
}

/** Goes to the stored place, if there is one. */
export function backToPlace() {
  const kept = ofTab.getItem(KEPT);
  ofTab.removeItem(KEPT);
  if (!kept?.startsWith("#/") || location.hash.length > 2) return;
  history.replaceState(null, "", kept);
  look();
}
