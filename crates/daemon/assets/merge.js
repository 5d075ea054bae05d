// What an event means for what is shown. Pure: the world goes in, the new world comes out.

/**
 * @typedef {object} World
 * @property {Api.Server[] | null} servers null as long as they are not known
 * @property {Api.Question[]} questions
 * @property {Api.LiveEvent[]} log the last events, oldest first
 */

/** What has to be asked for again after an event. @typedef {"servers" | "questions" | "overview" | "trust" | "config" | "tools"} Part */

/** So many events are remembered for the history of servers. */
export const LOG_LENGTH = 1000;

/** @type {Record<string, Part[]>} */
const STALE = {
  mcp_server_state: ["servers", "overview"],
  mcp_server_connected: ["servers", "overview"],
  mcp_server_disconnected: ["servers", "overview"],
  mcp_server_error: ["servers", "overview"],
  mcp_server_warning: ["servers"],
  mcp_tools_updated: ["servers", "overview", "tools"],
  mcp_tool_quarantined: ["servers", "overview", "trust", "tools"],
  tool_completed: ["overview"],
  tool_denied: ["overview"],
  // A list that was asked for before the event may come after it, and know nothing of it.
  question_opened: ["questions", "overview"],
  question_closed: ["questions", "overview"],
  config_changed: ["servers", "overview", "trust", "config"],
  config_rejected: ["servers", "config"],
  missed: ["servers", "questions", "overview", "trust", "config", "tools"],
};

/**
 * Takes an event in.
 * @param {World} world
 * @param {Api.LiveEvent} event
 * @param {boolean} isOld whether it was in the daemon's log before this page looked: it is history and changes nothing
 * @returns {{world: World, stale: Part[]}}
 */
export function merged(world, event, isOld = false) {
  const known = event.id !== null && world.log.some((old) => old.id === event.id && old.name === event.name);
  if (known) return { world, stale: [] };
  // After a gap, or of another run of the daemon, what was remembered goes together with nothing that comes.
  const log = event.name === "missed" ? [] : [...world.log, event].slice(-LOG_LENGTH);
  if (isOld) return { world: { ...world, log }, stale: [] };
  const stale = STALE[event.name] ?? [];
  return {
    world: { servers: servers(world.servers, event), questions: questions(world.questions, event), log },
    stale,
  };
}

/**
 * @param {Api.Server[] | null} list
 * @param {Api.LiveEvent} event
 */
function servers(list, { name, data }) {
  if (!list || name !== "mcp_server_state" || !data.state) return list;
  // A server that does not run was switched off or disconnected: only the list tells which.
  if (data.state.state === "disabled") return list;
  const { in_ms: wait, ...state } = data.state;
  const next = typeof wait === "number" ? { retry_at: new Date(Date.parse(data.at) + wait).toISOString() } : {};
  return list.map((server) => (server.name === data.server ? { ...server, ...WITHOUT_REASON, ...state, ...next } : server));
}

/** What belongs to one state must not outlive it. */
const WITHOUT_REASON = { error: null, attempt: null, attempts: null, retry_in_ms: null, retry_at: null, how: null };

/**
 * @param {Api.Question[]} list
 * @param {Api.LiveEvent} event
 */
function questions(list, { name, data }) {
  const others = (/** @type {string} */ id) => list.filter((question) => question.id !== id);
  if (name === "question_opened" && data.question) return [...others(data.question.id), data.question];
  if (name === "question_closed") return others(data.id);
  return list;
}

/**
 * The events that concern one server, newest first, without what stands in its logs.
 * @param {Api.LiveEvent[]} log
 * @param {string} server
 */
export function historyOf(log, server) {
  const isOf = (/** @type {Api.LiveEvent} */ { name, data }) =>
    data.server === server && !["mcp_server_log", "mcp_server_stderr", "tool_progress", "tool_started"].includes(name);
  return log.filter(isOf).reverse();
}

/**
 * The lines that a server wrote since a moment.
 * @param {Api.LiveEvent[]} log
 * @param {string} server
 * @param {string} after RFC 3339
 * @returns {Api.LogLine[]}
 */
export function linesSince(log, server, after) {
  const since = Date.parse(after);
  return log
    .filter(({ name, data }) => data.server === server && (name === "mcp_server_log" || name === "mcp_server_stderr"))
    .filter(({ data }) => !(Date.parse(data.at) <= since))
    .map(({ name, data }) => {
      const text = data.line ?? (typeof data.message === "string" ? data.message : JSON.stringify(data.message));
      return { at: data.at, level: name === "mcp_server_log" ? data.level : "stderr", text };
    });
}
