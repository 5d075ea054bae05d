// How this page authenticates to the daemon. On a user's own machine it has the token of this launch, which comes in the fragment of
// the address, is never sent anywhere by the browser, and is removed from the address at once. In a team it can be the session of a
// person who has signed in: a cookie, which no script can read.

import { base } from "./agent.js";
import { computed, signal } from "./html.js";
import { lasting } from "./storage.js";

/** The key of the stored token. Two daemons may be below different paths of one address. */
const PLACE = `toolrack.token${base}`;

/**
 * Returns the token in a fragment.
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

/** The token; null if the page has none. */
export const token = signal(/** @type {string | null} */ (null));

/** Whether this browser has the session of a person who has signed in. */
export const isSignedIn = signal(false);

/** Whether the page has a token or a session. */
export const isOpen = computed(() => token.value !== null || isSignedIn.value);

/** Whether the daemon refused the last token, because it has been restarted, or the last session, because it has ended. */
export const refused = signal(false);

/** The address where a person signs in; null if the daemon knows only tokens. */
export const signInAt = signal(/** @type {string | null} */ (null));

/** Looks for a token in the address, then in the browser's storage. */
export function findToken() {
  const found = tokenIn(location.hash);
  if (found) {
    history.replaceState(null, "", `${location.pathname}${location.search}#/`);
    keepToken(found);
  } else {
    token.value = lasting.getItem(PLACE);
  }
}

/** @param {string} given */
export function keepToken(given) {
  lasting.setItem(PLACE, given);
  refused.value = false;
  token.value = given;
}

/**
 * Forgets a token that the daemon refused. If another tab has stored the token of a newer launch meanwhile, this page uses that.
 * @param {string | null} given the refused token
 */
export function dropToken(given) {
  const stored = lasting.getItem(PLACE);
  if (stored === given) lasting.removeItem(PLACE);
  // The refusal may answer a request that was sent with an older token.
  if (token.peek() !== given) return;
  const newer = stored === given ? null : stored;
  refused.value = newer === null;
  token.value = newer;
}

/** Forgets the session, which the daemon no longer accepts. */
export function dropSession() {
  if (isSignedIn.peek()) refused.value = true;
  isSignedIn.value = false;
}

/** Uses the token that another tab has stored. @param {{key: string | null, newValue: string | null}} change in the browser's storage */
export function adoptToken({ key, newValue }) {
  if (key !== PLACE || newValue === null) return;
  refused.value = false;
  token.value = newValue;
}
