// The person at this page, as the daemon knows them.

import { get } from "./api.js";
import { effect, signal } from "./html.js";
import { isOpen, isSignedIn, refused, token } from "./token.js";

/** The person; null until the daemon has answered. */
export const me = signal(/** @type {Api.Me | null} */ (null));

/** The error when the daemon does not say who the person is, because it serves no such agent. */
export const unknown = signal(/** @type {unknown} */ (null));

/** Whether the page is still looking for a session of this browser. */
export const isLooking = signal(false);

/** Whether the person has a right, such as `operate`. @param {string} right */
export const may = (right) => me.value?.rights.includes(right) ?? false;

/** Whether the person is a member of a team, and not the user of the daemon's machine. */
export const isMember = () => me.value !== null && me.value.tenant !== "local";

/** Looks for a session of this browser, if there is no token. */
export async function findSession() {
  if (token.peek() !== null) return;
  isLooking.value = true;
  try {
    me.value = await get("/api/v1/me");
    isSignedIn.value = true;
    refused.value = false;
  } catch {
    // Without an answer, the page shows the sign-in.
  } finally {
    isLooking.value = false;
  }
}

/** Pauses between requests for the person. In ms. */
const PAUSE = 2_000;

/** Keeps `me` up to date while the page has a token or a session. */
export function startMe() {
  effect(() => {
    const open = isOpen.value;
    if (!open) me.value = null;
    // A new token may belong to another person.
    if (token.value === null) return undefined;
    const ended = new AbortController();
    ask(ended.signal);
    return () => ended.abort();
  });
  // The daemon also refuses a request when the person's rights change during it; their session continues then.
  effect(() => {
    if (refused.value) findSession();
  });
}

/** @param {AbortSignal} signal */
async function ask(signal) {
  try {
    const found = await get("/api/v1/me", signal);
    if (signal.aborted) return;
    me.value = found;
    unknown.value = null;
  } catch (error) {
    if (signal.aborted) return;
    unknown.value = error;
    const timer = setTimeout(() => ask(signal), PAUSE);
    signal.addEventListener("abort", () => clearTimeout(timer));
  }
}

/** Ends the session of this browser. */
export async function signOut() {
  await fetch("/sign-out", { method: "POST", redirect: "manual" }).catch(() => undefined);
  location.assign(location.pathname);
}
