// Slots that the pages of a browser share, so that slow requests leave a connection for others: a browser opens at most six connections to
// one address. Only pages from this machine or over https can share slots.

import { base } from "./agent.js";

/** Whether a request for a lock failed because the browser forbids locks, as it does where it forbids storage. @param {unknown} error */
export const isForbidden = (error) => error instanceof DOMException && error.name === "SecurityError";

/**
 * Holds one of the slots of a name until the signal is aborted. Where pages cannot share, there are no slots.
 * @param {string} name
 * @param {number} count the number of slots
 * @param {AbortSignal} signal
 * @returns {Promise<boolean>} whether it got one; false as soon as it is certain that it gets none, at the latest when the signal
 *   is aborted
 */
export function taken(name, count, signal) {
  return new Promise((resolve) => {
    const end = new Promise((left) => signal.addEventListener("abort", left, { once: true }));
    end.then(() => resolve(false));
    if (signal.aborted || !navigator.locks) return resolve(false);
    const found = new AbortController();
    for (let number = 0; number < count; number += 1) {
      const options = { signal: AbortSignal.any([signal, found.signal]) };
      const take = () => {
        if (found.signal.aborted) return undefined;
        found.abort();
        resolve(true);
        return end;
      };
      const request = navigator.locks.request(`toolrack.${name}.${number}${base}`, options, take);
      request.catch((error) => isForbidden(error) && resolve(false));
    }
  });
}

/** The most slow requests at once, in all pages of a browser: with the stream of events, two of six connections are left. */
const LONG = 3;

/**
 * Runs a slow request once a slot is free.
 * @template T
 * @param {AbortSignal} signal
 * @param {() => Promise<T>} doIt
 * @param {() => void} [onWait] is called when other pages hold all slots
 * @returns {Promise<T>}
 */
export async function inPlace(signal, doIt, onWait = () => {}) {
  const left = new AbortController();
  const timer = setTimeout(onWait, 200);
  try {
    await taken("long", LONG, AbortSignal.any([signal, left.signal]));
    clearTimeout(timer);
    return await doIt();
  } finally {
    clearTimeout(timer);
    left.abort();
  }
}
