// The time, for what counts it.

import { daemonNow } from "../clock.js";
import { useEffect, useState } from "../html.js";

/** Now, as the daemon's clock says, each second anew while it is wanted. In ms since 1970. @param {boolean} [isWanted] */
export function useNow(isWanted = true) {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!isWanted) return undefined;
    const timer = setInterval(() => tick((turn) => turn + 1), 1000);
    return () => clearInterval(timer);
  }, [isWanted]);
  return daemonNow();
}
