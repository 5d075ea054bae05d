// Limits how many pages listen where the pages of a browser cannot share a stream. A browser opens at most six connections to a
// daemon, for all of its tabs together: with a stream in each of six tabs, none would be left for requests.

import { taken } from "./slots.js";

/** The number of hidden tabs that may listen as well, so that the count in their titles is true. */
const UNSEEN = 2;

/**
 * A seat: the permission to listen until the signal is aborted.
 * @typedef {object} Seat
 * @property {AbortSignal} signal
 * @property {() => void} leave returns the seat
 */

/**
 * Waits until this page may listen: a visible page may at once, a hidden one when a seat for hidden pages is free. When the page is
 * hidden or shown, it must leave its seat and wait for another.
 * @param {AbortSignal} signal
 * @returns {Promise<Seat>}
 */
export async function seated(signal) {
  const left = new AbortController();
  const leave = () => left.abort();
  const seat = AbortSignal.any([signal, left.signal]);
  document.addEventListener("visibilitychange", leave, { signal: seat });
  if (document.hidden && !(await taken("unseen", UNSEEN, seat))) await aborted(seat);
  return { signal: seat, leave };
}

/** Waits until a signal is aborted. @param {AbortSignal} signal @returns {Promise<void>} */
const aborted = (signal) =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
