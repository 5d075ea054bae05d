// What the page knows of the daemon, kept fresh by its events.

import { get, Refusal } from "./api.js";
import { daemonNow } from "./clock.js";
import { batch, computed, effect, signal } from "./html.js";
import { merged } from "./merge.js";
import { listenTogether } from "./shared.js";
import { may, me, unknown } from "./me.js";

/** @type {import("./vendor/preact-signals.js").Signal<import("./merge.js").World>} */
const world = signal({ servers: null, questions: [], log: [] });

/** All servers; null as long as they are not known. */
export const servers = computed(() => world.value.servers);

/** What waits for an answer, oldest first. */
export const questions = computed(() => world.value.questions);

/** The last events. */
export const log = computed(() => world.value.log);

/** What is wrong with configuration files. */
export const problems = signal(/** @type {Api.Problem[]} */ ([]));

export const overview = signal(/** @type {Api.Overview | null} */ (null));

/** What waits for an agreement. */
export const trust = signal(/** @type {Api.Trust | null} */ (null));

/** Counts how often configuration changed: who shows files asks again when it moves. */
export const configTurn = signal(0);

/** Counts how often tools may have become others: who shows some asks again when it moves. */
export const toolsTurn = signal(0);

/** @type {import("./vendor/preact-signals.js").Signal<import("./events.js").State>} */
export const connection = signal("connecting");

/** Whether what is shown is how things are: the daemon is heard of, or is about to be for the first time. */
export const isKnown = computed(() => connection.value === "live" || connection.value === "connecting");

/** Why the last look failed. */
export const trouble = signal(/** @type {unknown} */ (null));

/** @typedef {import("./merge.js").Part} Part */

/** How long a look may take: one that never ends must not be the last. In ms. */
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

/** Events come in bursts: what they make stale is fetched once, this much later. In ms. */
const GATHER = 120;

/** @type {Set<Part>} */
const stale = new Set();
let timer = 0;

/** Asks for parts again, soon. @param {Part[]} parts */
export function refresh(...parts) {
  for (const part of parts) stale.add(part);
  timer ||= setTimeout(async () => {
    const now = [...stale];
    stale.clear();
    const outcomes = await Promise.allSettled(now.map((part) => FETCH[part]()));
    // What became stale meanwhile waits for its turn, so that an older answer never replaces a newer one.
    timer = 0;
    const failed = outcomes.find((outcome) => outcome.status === "rejected");
    trouble.value = failed?.reason ?? null;
    if (stale.size > 0) refresh();
  }, GATHER);
}

/** Takes a server's new state from an answer. @param {Api.Server} server */
export function took(server) {
  const list = world.peek().servers;
  if (list) world.value = { ...world.peek(), servers: list.map((old) => (old.name === server.name ? server : old)) };
}

/** Takes a question away that was answered here. @param {string} id */
export function answered(id) {
  const rest = world.peek().questions.filter((question) => question.id !== id);
  world.value = { ...world.peek(), questions: rest };
}

/** Listens as long as it is known who looks at this page. */
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
    if (may("operate")) follow(over.signal);
    else lookNowAndThen(over.signal);
    return () => over.abort();
  });
}

/** How often a page looks that may not listen: the events of a world tell of the calls of all its members. In ms. */
const ROUND = 5_000;

/** @param {AbortSignal} signal */
function lookNowAndThen(signal) {
  const round = () => document.hidden || refresh(...ALL.filter((part) => part !== "questions" || may("use")));
  round();
  connection.value = "live";
  const timer = setInterval(round, ROUND);
  document.addEventListener("visibilitychange", round, { signal });
  signal.addEventListener("abort", () => clearInterval(timer));
}

/** @param {AbortSignal} signal */
function follow(signal) {
  // What happened before the daemon first answered is history, and what is fetched from then on knows of it.
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
    refresh(...ALL);
  };
  listenTogether({ onEvent, onState }, signal);
}
