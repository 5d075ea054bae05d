// The token of this launch: it comes in the address's fragment, which no browser sends anywhere, and leaves it at once.

import { base } from "./agent.js";
import { signal } from "./html.js";

/** Two daemons may be below different paths of one address. */
const PLACE = `toolrack.token${base}`;

/**
 * Takes a token out of a fragment.
 * @param {string} hash the fragment with its `#`
 * @returns {string | null}
 */
export function tokenIn(hash) {
  const found = /^#token=([^&]+)/.exec(hash);
  if (!found) return null;
  try {
    return decodeURIComponent(found[1]);
  } catch {
    return found[1];
  }
}

/** The token, or null when one has to be asked for. */
export const token = signal(/** @type {string | null} */ (null));

/** Whether the daemon refused the last token: it was started anew since. */
export const refused = signal(false);

/** Looks for a token in the address, then in what this browser keeps. */
export function findToken() {
  const found = tokenIn(location.hash);
  if (found) {
    history.replaceState(null, "", `${location.pathname}${location.search}#/`);
    keepToken(found);
  } else {
    token.value = localStorage.getItem(PLACE);
  }
}

/** @param {string} given */
export function keepToken(given) {
  localStorage.setItem(PLACE, given);
  refused.value = false;
  token.value = given;
}

/**
 * Forgets a token that the daemon does not take. Another tab may have got the one of a newer launch meanwhile: that stays, and
 * is taken here as well.
 * @param {string | null} given the one that was refused
 */
export function dropToken(given) {
  const kept = localStorage.getItem(PLACE);
  if (kept === given) localStorage.removeItem(PLACE);
  // An answer to what was asked before this page got its token says nothing of it.
  if (token.peek() !== given) return;
  const newer = kept === given ? null : kept;
  refused.value = newer === null;
  token.value = newer;
}

/** Takes the token that another tab got. @param {{key: string | null, newValue: string | null}} change of what this browser keeps */
export function heardToken({ key, newValue }) {
  if (key !== PLACE || newValue === null) return;
  refused.value = false;
  token.value = newValue;
}
