// Applies an event of the daemon to what the page shows (called the world: servers, questions, last events). Pure: it takes a world, and
// returns the new one.

/**
 * @typedef {object} World
 * @property {Api.Server[] | null} servers null until they are known
 * @property {Api.Question[]} questions
 * @property {Api.LiveEvent[]} log the last events, oldest first
 */

/** A part of what the page shows, which has to be fetched again after some events. @typedef {"servers" | "questions" | "overview" | "trust" | "config" | "tools" | "answers"} Part */

/** The most events that are kept for the history of servers. */
export const LOG_LENGTH = 1000;

/** The parts that are out of date after each event. @type {Record<string, Part[]>} */
const STALE = {
  mcp_server_state: ["servers", "overview"],
  mcp_server_connected: ["servers", "overview"],
  mcp_server_disconnected: ["servers", "overview"],
  mcp_server_error: ["servers", "overview"],
  mcp_server_warning: ["servers"],
  mcp_tools_updated: ["servers", "overview", "tools"],
  mcp_tool_quarantined: ["servers", "overview", "trust", "tools"],
  // The daemon stores a standing answer after its question is closed, and before its call begins or is denied.
  tool_started: ["answers"],
  tool_completed: ["overview"],
  tool_denied: ["overview", "answers"],
  // A list that was requested before the event may arrive after it, without its change.
  question_opened: ["questions", "overview"],
  question_closed: ["questions", "overview"],
  config_changed: ["servers", "overview", "trust", "config"],
  config_rejected: ["servers", "config"],
  missed: ["servers", "questions", "overview", "trust", "config", "tools", "answers"],
};

/**
 * Applies an event. Returns the new world, and the parts that have to be fetched again.
 * @param {World} world
 * @param {Api.LiveEvent} event
 * @param {boolean} isOld whether it happened before this page was opened: such an event is history, and changes no list
 * @returns {{world: World, stale: Part[]}}
 */
export function merged(world, event, isOld = false) {
  const known = event.id !== null && world.log.some((old) => old.id === event.id && old.name === event.name);
  if (known) return { world, stale: [] };
  // After a gap, or a restart of the daemon, the log begins anew: what is in it has no connection to the events that follow.
  const log = event.name === "missed" ? [] : [...world.log, event].slice(-LOG_LENGTH);
  if (isOld) return { world: { ...world, log }, stale: [] };
  return { world: { ...withEvent(world, event), log }, stale: STALE[event.name] ?? [] };
}

/**
 * Applies an event to the lists.
 * @param {World} world
 * @param {Api.LiveEvent} event
 * @returns {World}
 */
export function withEvent(world, event) {
  return { ...world, servers: servers(world.servers, event), questions: questions(world.questions, event) };
}

/** A change of the world: an event, or what the user did on this page. @typedef {(world: World) => World} Change */

/**
 * Puts fetched lists into the world. The daemon may have made the lists before some of the changes that arrived while the
 * request was under way. So these changes are applied to the lists, and no change that the page has shown is undone.
 * @param {World} world
 * @param {Partial<World>} lists
 * @param {Change[]} since the changes since the request began, oldest first
 * @returns {World}
 */
export function withFetched(world, lists, since) {
  return since.reduce((changed, change) => change(changed), { ...world, ...lists });
}

/**
 * The list of servers after an event.
 * @param {Api.Server[] | null} list
 * @param {Api.LiveEvent} event
 */
function servers(list, { name, data }) {
  if (!list || name !== "mcp_server_state" || !data.state) return list;
  // A server that is disabled for the host was switched off or disconnected. Only a new list says which.
  if (data.state.state === "disabled") return list;
  const { in_ms: wait, ...state } = data.state;
  const next = typeof wait === "number" ? { retry_at: new Date(Date.parse(data.at) + wait).toISOString() } : {};
  return list.map((server) => (server.name === data.server ? { ...server, ...WITHOUT_REASON, ...state, ...next } : server));
}

/** The fields that belong to one state, without a value: a new state begins with these. */
const WITHOUT_REASON = { error: null, attempt: null, attempts: null, retry_in_ms: null, retry_at: null, how: null };

/**
 * The list of questions after an event.
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
 * Returns the events of one server, newest first, without its log lines.
 * @param {Api.LiveEvent[]} log
 * @param {string} server
 */
export function historyOf(log, server) {
  const isOf = (/** @type {Api.LiveEvent} */ { name, data }) =>
    data.server === server && !["mcp_server_log", "mcp_server_stderr", "tool_progress", "tool_started"].includes(name);
  return log.filter(isOf).reverse();
}

/**
 * Returns the log lines of a server since a time.
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
