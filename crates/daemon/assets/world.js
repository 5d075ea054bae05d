// What the page knows of the daemon: its servers, open questions and last events (together called the world), and its other parts, such as
// the overview. Events of the daemon keep it up to date.

import { get, Refusal } from "./api.js";
import { daemonNow } from "./clock.js";
import { batch, computed, effect, signal } from "./html.js";
import { merged, withEvent, withFetched } from "./merge.js";
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

/** Counts possible changes of the standing answers. Components that show them fetch them again when it changes. */
export const answersTurn = signal(0);

/** @type {import("./vendor/preact-signals.js").Signal<import("./events.js").State>} */
export const connection = signal("connecting");

/** Whether the page is up to date: it is connected to the daemon, or connects for the first time. */
export const isKnown = computed(() => connection.value === "live" || connection.value === "connecting");

/** The error of a part that the page could not fetch, until it has fetched it, or the error of the stream of events. */
export const trouble = signal(/** @type {unknown} */ (null));

/** @typedef {import("./merge.js").Part} Part */

/** The time-out of a request, so that a request that gets no answer does not hold up all later ones. In ms. */
const REQUEST_TIMEOUT = 20_000;

/** Aborts the requests that are under way, when the user asks for everything again. */
let round = new AbortController();

/** Sends a GET, with a time-out. @param {string} path */
async function fetchJson(path) {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new DOMException("no answer", "TimeoutError")), REQUEST_TIMEOUT);
  try {
    return await get(path, AbortSignal.any([late.signal, round.signal]));
  } finally {
    clearTimeout(timer);
  }
}

/** For each request for a list that is under way: the changes since it began. @type {Set<import("./merge.js").Change[]>} */
const underWay = new Set();

/** Changes the world now, and again in the answers of the requests that are under way. @param {import("./merge.js").Change} change */
function apply(change) {
  world.value = change(world.peek());
  remember(change);
}

/** Remembers a change for the answers of the requests that are under way. @param {import("./merge.js").Change} change */
function remember(change) {
  for (const changes of underWay) changes.push(change);
}

/**
 * Fetches a list of the world, and applies the changes since the request began to it.
 * @param {string} path
 * @param {(answer: any) => Partial<import("./merge.js").World>} lists takes the list from the answer
 */
async function fetchLists(path, lists) {
  /** @type {import("./merge.js").Change[]} */
  const since = [];
  underWay.add(since);
  try {
    const answer = await fetchJson(path);
    world.value = withFetched(world.peek(), lists(answer), since);
    return answer;
  } finally {
    underWay.delete(since);
  }
}

/** How each part is fetched. For the last three, the components that show them fetch them. @type {Record<Part, () => Promise<void>>} */
const FETCH = {
  servers: async () => {
    const { problems: found } = await fetchLists("/api/v1/servers", ({ servers }) => ({ servers }));
    problems.value = found ?? [];
  },
  questions: async () => {
    await fetchLists("/api/v1/approvals", ({ approvals }) => ({ questions: approvals }));
  },
  overview: async () => {
    overview.value = await fetchJson("/api/v1/overview");
  },
  trust: async () => {
    trust.value = await fetchJson("/api/v1/trust");
  },
  config: async () => {
    configTurn.value += 1;
  },
  tools: async () => {
    toolsTurn.value += 1;
  },
  answers: async () => {
    answersTurn.value += 1;
  },
};

/** @type {Part[]} */
const ALL = ["servers", "questions", "overview", "trust", "config", "tools", "answers"];

/** The parts that the user may fetch. */
const permitted = () => ALL.filter((part) => part !== "questions" || may("use"));

/** How long to wait before stale parts are fetched, because events come in bursts and each part is then fetched once. In ms. */
const FETCH_DELAY = 120;

/** The parts that have to be fetched again. @type {Set<Part>} */
const stale = new Set();
let timer = 0;

/** Fetches parts again, soon. @param {Part[]} parts */
export function refresh(...parts) {
  for (const part of parts) stale.add(part);
  timer ||= setTimeout(async () => {
    const now = [...stale];
    stale.clear();
    await Promise.all(now.map(fetchPart));
    // Only now may another round begin, so that an older answer never replaces a newer one.
    timer = 0;
    trouble.value = [...failures.values()][0] ?? null;
    if (stale.size > 0) refresh();
  }, FETCH_DELAY);
}

/** The errors of the parts whose last request failed. @type {Map<Part, unknown>} */
const failures = new Map();

/** Fetches a part. Its error stays until the part is fetched, whatever happens to other parts. @param {Part} part */
async function fetchPart(part) {
  const { signal } = round;
  try {
    await FETCH[part]();
    failures.delete(part);
  } catch (error) {
    if (signal.aborted) stale.add(part);
    else failures.set(part, error);
  }
}

/** Fetches everything again because the user asks for it, and waits no longer for requests that are under way. */
export function fetchAgain() {
  round.abort();
  round = new AbortController();
  refresh(...permitted());
}

/** Replaces a server by its new state from an answer. @param {Api.Server} server */
export function replaceServer(server) {
  apply((before) => ({
    ...before,
    servers: before.servers?.map((old) => (old.name === server.name ? server : old)) ?? null,
  }));
}

/** Removes a question that the user has answered on this page. @param {string} id */
export function removeQuestion(id) {
  apply((before) => ({ ...before, questions: before.questions.filter((question) => question.id !== id) }));
}

/** Listens to the events of the daemon while it is known who the user is. */
export function startWorld() {
  effect(() => {
    if (unknown.value) batch(() => {
      connection.value = unknown.value instanceof Refusal && unknown.value.status > 0 ? "refused" : "lost";
      trouble.value = unknown.value;
    });
  });
  effect(() => {
    if (!me.value) return;
    const ended = new AbortController();
    follow(ended.signal);
    return () => ended.abort();
  });
}

/** Applies the events of the daemon until `signal` is aborted. @param {AbortSignal} signal */
function follow(signal) {
  // Events from before the connection was live are history: everything that is fetched from then on includes them.
  let liveSince = Number.POSITIVE_INFINITY;
  const onEvent = (/** @type {Api.LiveEvent} */ event) => {
    const outcome = merged(world.peek(), event, Date.parse(event.data.at) < liveSince);
    world.value = outcome.world;
    if (outcome.stale.length === 0) return;
    remember((before) => withEvent(before, event));
    refresh(...outcome.stale);
  };
  /** @type {import("./events.js").Listener["onState"]} */
  const onState = (state, refusal) => {
    connection.value = state;
    if (refusal) trouble.value = refusal;
    if (state !== "live") return;
    liveSince = Math.min(liveSince, daemonNow());
    refresh(...permitted());
  };
  listenTogether({ onEvent, onState }, signal);
}
