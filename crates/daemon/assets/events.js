// The live events of the daemon: one stream for the whole page, begun again when it breaks and when the page is seen again.

import { ask, Refusal } from "./api.js";
import { parse } from "./exact.js";
import { seated } from "./seat.js";
import { eventsOf } from "./sse.js";

/** Pauses between tries: they double, with a little chance in them so that pages do not come back all at once. In ms. */
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;

/**
 * How long to wait before a try.
 * @param {number} tries that failed so far, from 1
 * @param {number} chance from 0 to 1
 */
export function pause(tries, chance = Math.random()) {
  const full = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (tries - 1));
  return Math.round(full * (0.75 + chance / 4));
}

/** @typedef {"connecting" | "live" | "lost" | "refused"} State */

/**
 * @typedef {object} Listener
 * @property {(event: Api.LiveEvent) => void} onEvent
 * @property {(state: State, refusal: Refusal | null) => void} onState with why, when the daemon answers and refuses to be listened to
 */

/**
 * Listens until the signal is aborted, or the token is refused. Begins with what the daemon still has in its log.
 * @param {Listener} listener
 * @param {AbortSignal} signal
 * @param {{last?: string, isOnlyOne?: boolean}} [options] the last event that was seen; whether it listens for other pages, too,
 *   and so needs no seat
 */
export async function listen({ onEvent, onState }, signal, { last = "0", isOnlyOne = false } = {}) {
  let tries = 0;
  onState("connecting", null);
  while (!signal.aborted) {
    const seat = isOnlyOne ? { signal, leave() {} } : await seated(signal);
    /** @type {Refusal | null} */
    let refusal = null;
    try {
      const headers = { "Last-Event-ID": last, Accept: "text/event-stream" };
      const response = await ask("/api/v1/events", { headers, signal: seat.signal });
      onState("live", null);
      tries = 0;
      for await (const { event, data, id } of eventsOf(response)) {
        last = id ?? last;
        onEvent({ id, name: event, data: parse(data) });
      }
    } catch (error) {
      if (signal.aborted || (error instanceof Refusal && error.status === 401)) return;
      if (seat.signal.aborted) continue;
      if (error instanceof Refusal && error.status >= 400 && error.status < 500) refusal = error;
    } finally {
      seat.leave();
    }
    tries += 1;
    onState(refusal ? "refused" : "lost", refusal);
    await sleep(pause(tries), signal);
  }
}

/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
function sleep(ms, signal) {
  return new Promise((resolve) => {
    const over = new AbortController();
    const wake = () => {
      clearTimeout(timer);
      over.abort();
      resolve();
    };
    const timer = setTimeout(wake, ms);
    signal.addEventListener("abort", wake, { signal: over.signal });
    // Who comes back to the page does not want to wait for the rest of a pause.
    addEventListener("focus", wake, { signal: over.signal });
    // Or looks at another page that hears of it through this one.
    addEventListener("toolrack-wake", wake, { signal: over.signal });
  });
}
