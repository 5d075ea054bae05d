// Whose world the page shows: the one of all agents, or that of one agent, which the address names. Another one is another page, so that
// nothing of the first is left.

/** @param {string} search the query of an address with its `?` */
export const agentIn = (search) => new URLSearchParams(search).get("agent") || null;

/** The agent of this page, or null for the world of all agents. */
export const agent = agentIn(globalThis.location?.search ?? "");

/**
 * Where the daemon is at its address: nothing at the root, or a path such as `/tools/rack` where a server in between has it
 * below one.
 * @param {string} pathname of the page
 */
export const baseIn = (pathname) => pathname.slice(0, Math.max(0, pathname.lastIndexOf("/")));

/** Where the daemon is that this page is of. */
export const base = baseIn(globalThis.location?.pathname ?? "/");

/** Goes to the world of an agent. @param {string | null} id */
export function enter(id) {
  location.assign(`${location.pathname}${id === null ? "" : `?agent=${encodeURIComponent(id)}`}#/`);
}

/**
 * Where the daemon answers for an agent. Who the agents are is asked of the daemon itself.
 * @param {string} path
 * @param {string | null} [of]
 * @param {string} [below] where the daemon is
 */
export function pathOf(path, of = agent, below = base) {
  if (of === null || path === AGENTS) return `${below}${path}`;
  return `${below}/agents/${encodeURIComponent(of)}${path}`;
}

export const AGENTS = "/api/v1/agents";
