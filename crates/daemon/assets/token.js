// What proves to the daemon who looks at this page. Alone on a machine, that is the token of this launch: it comes in the address's fragment, which no browser sends anywhere, and leaves it at once.
// In a team it can be the session of a person who signed in: a cookie, which no script sees.

import { base } from "./agent.js";
import { computed, signal } from "./html.js";

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

/** Whether this browser has a session of a person who signed in. */
export const isSignedIn = signal(false);

/** Whether there is something that proves who looks at this page. */
export const isOpen = computed(() => token.value !== null || isSignedIn.value);

/** Whether the daemon refused the last token, because it was started anew since, or the last session, because it ended. */
export const refused = signal(false);

/** Where a person signs in, as the daemon said; null where there are only tokens. */
export const signInAt = signal(/** @type {string | null} */ (null));

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

/** Forgets the session, which the daemon does not take any more. */
export function dropSession() {
  if (isSignedIn.peek()) refused.value = true;
  isSignedIn.value = false;
}

/** Takes the token that another tab got. @param {{key: string | null, newValue: string | null}} change of what this browser keeps */
export function heardToken({ key, newValue }) {
  if (key !== PLACE || newValue === null) return;
  refused.value = false;
  token.value = newValue;
}
