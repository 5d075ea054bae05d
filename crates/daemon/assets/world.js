// What the page knows of the daemon. Events of the daemon keep it up to date.

import { get, Refusal } from "./api.js";
import { daemonNow } from "./clock.js";
import { batch, computed, effect, signal } from "./html.js";
import { merged } from "./merge.js";
import { listenTogether } from "./shared.js";
import { may, me, unknown } from "./me.js";

/** @type {import("./vendor/preact-signals.js").Signal<import("./merge.js").World>} */
const world = signal({ servers: null, questions: [], log: [] });

/** All servers; null until they are known. */
export const servers = computed(() => world.value.servers);

/** The questions that wait for an answer, oldest first. */
export const questions = computed(() => world.value.questions);

/** The last events. */
export const log = computed(() => world.value.log);

/** The problems of the configuration files. */
export const problems = signal(/** @type {Api.Problem[]} */ ([]));

export const overview = signal(/** @type {Api.Overview | null} */ (null));

/** The entries that wait for an agreement, and those that have one. */
export const trust = signal(/** @type {Api.Trust | null} */ (null));

/** Counts changes of the configuration. Components that show files fetch them again when it changes. */
export const configTurn = signal(0);

/** Counts possible changes of tools. Components that show tools fetch them again when it changes. */
export const toolsTurn = signal(0);

/** @type {import("./vendor/preact-signals.js").Signal<import("./events.js").State>} */
export const connection = signal("connecting");

/** Whether the page shows the present state: it is connected to the daemon, or connects for the first time. */
export const isKnown = computed(() => connection.value === "live" || connection.value === "connecting");

/** The error of the last failed request. */
export const trouble = signal(/** @type {unknown} */ (null));

/** @typedef {import("./merge.js").Part} Part */

/** The time-out of a request, so that one without an answer does not stop all later ones. In ms. */
const PATIENCE = 20_000;

/** @param {string} path */
async function look(path) {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(new DOMException("no answer", "TimeoutError")), PATIENCE);
  try {
    return await get(path, over.signal);
  } finally {
    clearTimeout(timer);
  }
}

/** @type {Record<Part, () => Promise<void>>} */
const FETCH = {
  servers: async () => {
    const { servers, problems: found } = await look("/api/v1/servers");
    batch(() => {
      world.value = { ...world.peek(), servers };
      problems.value = found ?? [];
    });
  },
  questions: async () => {
    const { approvals } = await look("/api/v1/approvals");
    world.value = { ...world.peek(), questions: approvals };
  },
  overview: async () => {
    overview.value = await look("/api/v1/overview");
  },
  trust: async () => {
    trust.value = await look("/api/v1/trust");
  },
  config: async () => {
    configTurn.value += 1;
  },
  tools: async () => {
    toolsTurn.value += 1;
  },
};

/** @type {Part[]} */
const ALL = ["servers", "questions", "overview", "trust", "config", "tools"];

/** The parts that the person may fetch. */
const permitted = () => ALL.filter((part) => part !== "questions" || may("use"));

/** Events come in bursts: the parts that they change are gathered for this long and then fetched once. In ms. */
const GATHER = 120;

/** @type {Set<Part>} */
const stale = new Set();
let timer = 0;

/** Fetches parts again, soon. @param {Part[]} parts */
export function refresh(...parts) {
  for (const part of parts) stale.add(part);
  timer ||= setTimeout(async () => {
    const now = [...stale];
    stale.clear();
    const outcomes = await Promise.allSettled(now.map((part) => FETCH[part]()));
    // Parts that changed meanwhile are fetched afterwards, so that an older answer never replaces a newer one.
    timer = 0;
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    trouble.value = failed?.reason ?? null;
    if (stale.size > 0) refresh();
  }, GATHER);
}

/** Replaces a server by its new state from an answer. @param {Api.Server} server */
export function replaceServer(server) {
  const list = world.peek().servers;
  if (list) world.value = { ...world.peek(), servers: list.map((old) => (old.name === server.name ? server : old)) };
}

/** Removes a question that the user has answered on this page. @param {string} id */
export function removeQuestion(id) {
  const rest = world.peek().questions.filter((question) => question.id !== id);
  world.value = { ...world.peek(), questions: rest };
}

/** Listens while the person at this page is known. */
export function startWorld() {
  effect(() => {
    if (unknown.value) batch(() => {
      connection.value = unknown.value instanceof Refusal && unknown.value.status > 0 ? "refused" : "lost";
      trouble.value = unknown.value;
    });
  });
  effect(() => {
    if (!me.value) return;
    const over = new AbortController();
    follow(over.signal);
    return () => over.abort();
  });
}

/** @param {AbortSignal} signal */
function follow(signal) {
  // Events from before the daemon's first answer are history; everything that is fetched from then on includes them.
  let begun = Number.POSITIVE_INFINITY;
  const onEvent = (/** @type {Api.LiveEvent} */ event) => {
    const outcome = merged(world.peek(), event, Date.parse(event.data.at) < begun);
    world.value = outcome.world;
    if (outcome.stale.length > 0) refresh(...outcome.stale);
  };
  /** @type {import("./events.js").Listener["onState"]} */
  const onState = (state, refusal) => {
    connection.value = state;
    if (refusal) trouble.value = refusal;
    if (state !== "live") return;
    begun = Math.min(begun, daemonNow());
    refresh(...permitted());
  };
  listenTogether({ onEvent, onState }, signal);
}
