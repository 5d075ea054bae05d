// Who looks at this page, as the daemon proved it.

import { get } from "./api.js";
import { effect, signal } from "./html.js";
import { isOpen, isSignedIn, refused, token } from "./token.js";

/** Null as long as it is not known. */
export const me = signal(/** @type {Api.Me | null} */ (null));

/** Why it is not known, when the daemon refuses to say it: it serves no such agent. */
export const unknown = signal(/** @type {unknown} */ (null));

/** Whether the page still looks for a session of this browser. */
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
    // Without an answer, the page asks who it is.
  } finally {
    isLooking.value = false;
  }
}

/** Pauses between tries to ask who it is. In ms. */
const PAUSE = 2_000;

/** Knows who looks at this page, as long as something proves it. */
export function startMe() {
  effect(() => {
    const open = isOpen.value;
    if (!open) me.value = null;
    // Another token may stand for another person.
    if (token.value === null) return undefined;
    const over = new AbortController();
    ask(over.signal);
    return () => over.abort();
  });
  // A request is also refused when the rights of its person changed while it was under way: the session goes on then.
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
