// The live events of the daemon: one stream for the whole page. A broken stream is opened again after a pause, or as soon as the
// user returns to the page.

import { ask, Refusal } from "./api.js";
import { parse } from "./exact-json.js";
import { seated } from "./seat.js";
import { eventsOf } from "./sse.js";

/** Pauses between attempts: each doubles the one before, with some jitter, so that the pages do not all reconnect at once. In ms. */
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;

/**
 * Returns the pause before an attempt.
 * @param {number} tries the attempts that have failed, from 1
 * @param {number} chance the jitter, from 0 to 1
 */
export function pause(tries, chance = Math.random()) {
  const full = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (tries - 1));
  return Math.round(full * (0.75 + chance / 4));
}

/** @typedef {"connecting" | "live" | "lost" | "refused"} State */

/**
 * @typedef {object} Listener
 * @property {(event: Api.LiveEvent) => void} onEvent
 * @property {(state: State, refusal: Refusal | null) => void} onState with the error of a daemon that refuses the stream
 */

/**
 * Listens until the signal is aborted or the daemon refuses the token. The first events are those that the daemon's log still has.
 * @param {Listener} listener
 * @param {AbortSignal} signal
 * @param {{last?: string, isOnlyOne?: boolean}} [options] `last` is the last event that was seen; `isOnlyOne` says that this page listens for all
 *   pages of the browser, and so needs no seat
 */
export async function listen({ onEvent, onState }, signal, { last = "0", isOnlyOne = false } = {}) {
  let tries = 0;
  onState("connecting", null);
  while (!signal.aborted) {
    const seat = isOnlyOne ? { signal, leave() {} } : await seated(signal);
    /** @type {Refusal | null} */
    let refusal = null;
    let isEnded = false;
    try {
      const headers = { "Last-Event-ID": last, Accept: "text/event-stream" };
      const response = await ask("/api/v1/events", { headers, signal: seat.signal });
      onState("live", null);
      tries = 0;
      for await (const { event, data, id } of eventsOf(response)) {
        last = id ?? last;
        onEvent({ id, name: event, data: parse(data) });
      }
      // The daemon ends the stream of a member when its configuration changes: the next request continues it.
      isEnded = true;
    } catch (error) {
      if (signal.aborted || (error instanceof Refusal && error.status === 401)) return;
      if (seat.signal.aborted) continue;
      if (error instanceof Refusal && error.status >= 400 && error.status < 500) refusal = error;
    } finally {
      seat.leave();
    }
    tries += 1;
    if (!isEnded) onState(refusal ? "refused" : "lost", refusal);
    await sleep(pause(tries), signal);
  }
}

/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
function sleep(ms, signal) {
  return new Promise((resolve) => {
    const awake = new AbortController();
    const wake = () => {
      clearTimeout(timer);
      awake.abort();
      resolve();
    };
    const timer = setTimeout(wake, ms);
    signal.addEventListener("abort", wake, { signal: awake.signal });
    // When the user returns to the page, the rest of a pause is skipped;
    addEventListener("focus", wake, { signal: awake.signal });
    // likewise when the user returns to another page, for which this one listens.
    addEventListener("toolrack-wake", wake, { signal: awake.signal });
  });
}
