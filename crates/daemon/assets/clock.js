// The time by the daemon's clock. The page compares times from the daemon with it, because the browser's clock may differ.

/** How far the daemon's clock is ahead of the browser's. In ms. */
let ahead = 0;

/** Two clocks that differ by less count as equal: the daemon sends whole seconds, and its answer takes a while. In ms. */
const SAME = 2_000;

/**
 * Takes the daemon's time from an answer.
 * @param {string | null} date the header `Date`
 * @param {number} [now]
 */
export function heardTime(date, now = Date.now()) {
  const found = Date.parse(date ?? "") - now;
  if (Number.isNaN(found)) return;
  // An answer can only arrive late, so the later of two readings is more exact.
  ahead = Math.abs(found - ahead) < SAME ? Math.max(found, ahead) : found;
}

/** Returns the time by the daemon's clock. In ms since 1970. @param {number} [now] */
export const daemonNow = (now = Date.now()) => now + ahead;
