// What time it is for the daemon, whose moments the page compares with now. The clock of the browser may be another one.

/** How much further the daemon's clock is. In ms. */
let ahead = 0;

/** Closer than this, two readings are of one clock: a daemon tells whole seconds, and an answer takes its time. In ms. */
const SAME = 2_000;

/**
 * Takes the time from an answer.
 * @param {string | null} date what the header `Date` says
 * @param {number} [now]
 */
export function heardTime(date, now = Date.now()) {
  const found = Date.parse(date ?? "") - now;
  if (Number.isNaN(found)) return;
  // It is never told too late, so of two readings the later one is nearer.
  ahead = Math.abs(found - ahead) < SAME ? Math.max(found, ahead) : found;
}

/** Now, as the daemon's clock says. In ms since 1970. @param {number} [now] */
export const daemonNow = (now = Date.now()) => now + ahead;
