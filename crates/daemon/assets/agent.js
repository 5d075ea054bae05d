// Whose world the page shows: everybody's, or that of an agent, which the address names. Another one is another page, so that
// nothing of the first is left.

/** @param {string} search the query of an address with its `?` */
export const agentIn = (search) => new URLSearchParams(search).get("agent") || null;

/** The agent of this page, or null for everybody's world. */
export const agent = agentIn(globalThis.location?.search ?? "");

/** Goes to the world of an agent. @param {string | null} id */
export function enter(id) {
  location.assign(`${location.pathname}${id === null ? "" : `?agent=${encodeURIComponent(id)}`}#/`);
}

/** Where the daemon answers for an agent. Who the agents are is asked of the daemon itself. @param {string} path @param {string | null} of */
export function pathOf(path, of = agent) {
  if (of === null || path === AGENTS) return path;
  return `/agents/${encodeURIComponent(of)}${path}`;
}

export const AGENTS = "/api/v1/agents";
