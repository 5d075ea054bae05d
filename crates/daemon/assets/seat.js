// Who listens where the pages of a browser cannot share a stream. A browser opens six connections to a daemon at most, for all of
// its tabs together: if each kept one for its stream, the sixth tab would leave none to ask anything with.

import { taken } from "./slots.js";

/** So many hidden tabs listen all the same, so that the count in a title is true. */
const UNSEEN = 2;

/**
 * A seat: this page may listen until the signal is aborted.
 * @typedef {object} Seat
 * @property {AbortSignal} signal
 * @property {() => void} leave gives it back
 */

/**
 * Waits until this page may listen: at once when it is seen, or else when a seat for the unseen is free. It has to leave, and
 * ask anew, when it is hidden or shown.
 * @param {AbortSignal} signal
 * @returns {Promise<Seat>}
 */
export async function seated(signal) {
  const over = new AbortController();
  const leave = () => over.abort();
  const seat = AbortSignal.any([signal, over.signal]);
  document.addEventListener("visibilitychange", leave, { signal: seat });
  if (document.hidden && !seat.aborted) await taken("unseen", UNSEEN, seat);
  return { signal: seat, leave };
}
