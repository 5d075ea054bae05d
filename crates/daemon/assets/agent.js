// Whose servers, questions and events (whose world) the page shows: those of the daemon, or those of the agent in the address. To change
// it, the browser loads the page anew, so that nothing of the first world is left.

/** @param {string} search the query of an address with its `?` */
export const agentIn = (search) => new URLSearchParams(search).get("agent") || null;

/** The agent of this page, or null for the daemon's own world. */
export const agent = agentIn(globalThis.location?.search ?? "");

/**
 * The path of the daemon at its address: empty at the root, or a path such as `/tools/rack` where a proxy serves it below one.
 * @param {string} pathname of the page
 */
export const baseIn = (pathname) => pathname.slice(0, Math.max(0, pathname.lastIndexOf("/")));

/** The path of the daemon that serves this page. */
export const base = baseIn(globalThis.location?.pathname ?? "/");

/** Goes to the world of an agent. @param {string | null} id */
export function enter(id) {
  location.assign(`${location.pathname}${id === null ? "" : `?agent=${encodeURIComponent(id)}`}#/`);
}

/**
 * The path at which the daemon answers for an agent. Only the daemon itself can list the agents.
 * @param {string} path
 * @param {string | null} [of]
 * @param {string} [below] the path of the daemon
 */
export function pathOf(path, of = agent, below = base) {
  if (of === null || path === AGENTS) return `${below}${path}`;
  return `${below}/agents/${encodeURIComponent(of)}${path}`;
}

export const AGENTS = "/api/v1/agents";
