// Places that the pages of a browser share. Only pages of this machine, or of https, can agree with each other.

import { base } from "./agent.js";

/**
 * Has one of the places of a name until the signal is aborted. Where pages cannot agree, there is none.
 * @param {string} name
 * @param {number} count how many there are
 * @param {AbortSignal} signal
 * @returns {Promise<boolean>} whether there is one; at the latest when the signal is aborted
 */
export function taken(name, count, signal) {
  return new Promise((resolve) => {
    const end = new Promise((left) => signal.addEventListener("abort", left, { once: true }));
    end.then(() => resolve(false));
    if (!navigator.locks) return;
    const found = new AbortController();
    for (let number = 0; number < count; number += 1) {
      const options = { signal: AbortSignal.any([signal, found.signal]) };
      const take = () => {
        if (found.signal.aborted) return undefined;
        found.abort();
        resolve(true);
        return end;
      };
      navigator.locks.request(`toolrack.${name}.${number}${base}`, options, take).catch(() => {});
    }
  });
}

/** Requests that may take long, of all pages of a browser together: with the stream of events, two of six are left. */
const LONG = 3;

/**
 * Does what may take long, once there is a place for it.
 * @template T
 * @param {AbortSignal} signal
 * @param {() => Promise<T>} doIt
 * @param {() => void} [onWait] told when other pages have all places
 * @returns {Promise<T>}
 */
export async function inPlace(signal, doIt, onWait = () => {}) {
  if (!navigator.locks) return doIt();
  const over = new AbortController();
  const timer = setTimeout(onWait, 200);
  try {
    await taken("long", LONG, AbortSignal.any([signal, over.signal]));
    clearTimeout(timer);
    return await doIt();
  } finally {
    clearTimeout(timer);
    over.abort();
  }
}
