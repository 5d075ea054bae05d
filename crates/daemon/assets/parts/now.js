// The present time, for components that count seconds.

import { daemonNow } from "../clock.js";
import { useEffect, useState } from "../html.js";

/** Returns the time by the daemon's clock, renewed each second while `isWanted`. In ms since 1970. @param {boolean} [isWanted] */
export function useNow(isWanted = true) {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!isWanted) return undefined;
    const timer = setInterval(() => tick((turn) => turn + 1), 1000);
    return () => clearInterval(timer);
  }, [isWanted]);
  return daemonNow();
}
