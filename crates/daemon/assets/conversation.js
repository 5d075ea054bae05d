// The conversation of this page. It is not part of a component, so that an answer goes on while the user looks at another part of
// the dashboard, such as a server.

import { call, get, takeTurn, transcript } from "./api.js";
import { chosenFor, EVERYTHING, remember, requestOf } from "./choice.js";
import { signal } from "./html.js";
import { failedTurn, newTurn, turnsOf, withEvent } from "./turn.js";
import { questions } from "./world.js";

/** @typedef {import("./turn.js").Turn} Turn */

/**
 * @typedef {object} Conversation
 * @property {string | null} session null until the daemon has stored something of it
 * @property {string | null} title
 * @property {Turn[]} turns
 * @property {"idle" | "loading" | "running" | "stopping"} state
 * @property {boolean} open whether the last turn was interrupted and can be continued
 * @property {string} turn the daemon's id of the last turn, by which it is cancelled
 * @property {string[]} before the questions that were already waiting when the last turn began, and so do not belong to it
 * @property {unknown} error why it could not be fetched
 */

/** @type {Conversation} */
const NEW = { session: null, title: null, turns: [], state: "idle", open: false, turn: "", before: [], error: null };

export const conversation = signal(NEW);

/** The message that the user is writing, kept while they look at other pages. */
export const draft = signal("");

/** The model that answers, and its tools. */
export const choice = signal(EVERYTHING);

/** Changes the choice for this conversation. @param {Partial<import("./choice.js").Choice>} chosen */
export function choose(chosen) {
  choice.value = { ...choice.peek(), ...chosen };
  const { session } = conversation.peek();
  if (session) remember(session, choice.peek());
}

/** Text arrives in small pieces, which are gathered for this long and then shown together. In ms. */
const GATHER = 40;

/** How long a turn may take to end after it was cancelled; then the connection is closed. In ms. */
const GRACE = 4000;

/** Aborts the current answer, or the fetching of a conversation. */
let currentWork = new AbortController();
let turnId = "";
let count = 0;

/** @param {Partial<Conversation>} change */
const change = (change) => {
  conversation.value = { ...conversation.peek(), ...change };
};

/** @param {Turn} turn the new version of the last turn */
const changeLast = (turn) => change({ turns: conversation.peek().turns.with(-1, turn) });

const path = (/** @type {string} */ session) => `/api/v1/sessions/${encodeURIComponent(session)}`;

export const isBusy = () => ["running", "stopping"].includes(conversation.peek().state);

/** Begins a conversation, and cancels the current answer. */
export function begin() {
  currentWork.abort();
  conversation.value = NEW;
  choice.value = EVERYTHING;
}

/** Fetches a stored conversation, to continue it. @param {string} session */
export async function resume(session) {
  currentWork.abort();
  const ownWork = new AbortController();
  currentWork = ownWork;
  conversation.value = { ...NEW, session, state: "loading" };
  choice.value = chosenFor(session);
  try {
    const { session: about, messages } = await transcript(path(session), ownWork.signal);
    if (!ownWork.signal.aborted)
      change({ title: about.title, turns: turnsOf(messages), open: about.open_turn, state: "idle" });
  } catch (error) {
    if (!ownWork.signal.aborted) change({ error, state: "idle" });
  }
}

/**
 * Sends a message, and shows the answer as it arrives.
 * @param {string} text empty to continue a turn that was interrupted
 * @param {string} [shown] the message to show, if the daemon has stored it already and it is not sent again
 */
export async function say(text, shown = text) {
  const ownWork = new AbortController();
  currentWork = ownWork;
  turnId = crypto.randomUUID();
  count += 1;
  const before = questions.peek().map(({ id }) => id);
  let turn = newTurn(`turn-${count}`, shown);
  change({ turns: [...conversation.peek().turns, turn], state: "running", open: false, turn: turnId, before, error: null });
  let timer = 0;
  const show = () => {
    clearTimeout(timer);
    timer = 0;
    if (!ownWork.signal.aborted) changeLast(turn);
  };
  const onEvent = (/** @type {string} */ event, /** @type {any} */ data) => {
    if (ownWork.signal.aborted) return;
    if (event === "session") {
      remember(data.id, choice.peek());
      return change({ session: data.id, title: data.title ?? conversation.peek().title });
    }
    turn = withEvent(turn, event, data, Date.now());
    if (event === "text" || event === "thinking") timer ||= setTimeout(show, GATHER);
    else show();
  };
  try {
    const request = { session: conversation.peek().session, text, id: turnId, ...requestOf(choice.peek()) };
    await takeTurn(request, onEvent, ownWork.signal);
  } catch (error) {
    turn = failedTurn(turn, error);
  }
  if (ownWork.signal.aborted) return;
  show();
  const { end } = turn;
  change({ state: "idle", session: end?.session ?? conversation.peek().session });
  if (end?.end !== "answered") await lookWhetherOpen(ownWork.signal);
}

/** Asks the daemon whether the interrupted turn can be continued. @param {AbortSignal} signal */
async function lookWhetherOpen(signal) {
  const { session } = conversation.peek();
  if (!session) return;
  const found = await get(`${path(session)}?limit=1`, signal).catch(() => null);
  // Another turn may have begun meanwhile, and ended.
  const isLast = currentWork.signal === signal && !signal.aborted;
  if (found && isLast && conversation.peek().state === "idle") change({ open: found.session.open_turn });
}

/** Stops the answer, and keeps what has arrived of it. */
export async function stop() {
  const ownWork = currentWork;
  if (conversation.peek().state !== "running") return;
  change({ state: "stopping" });
  const giveUp = () => {
    if (ownWork.signal.aborted || currentWork !== ownWork || !isBusy()) return;
    ownWork.abort();
    const last = conversation.peek().turns.at(-1);
    if (last)
      changeLast({
        ...failedTurn(last, null),
        state: "over",
        end: { session: conversation.peek().session, end: "cancelled" },
      });
    change({ state: "idle" });
  };
  setTimeout(giveUp, GRACE);
  await call(`/api/v1/turns/${encodeURIComponent(turnId)}`, { method: "DELETE" }).catch(giveUp);
}

/** Tries a failed turn again. A turn of which the daemon has stored something is continued, not asked a second time. */
export async function again() {
  await lookWhetherOpen(currentWork.signal);
  const { turns, open } = conversation.peek();
  const failed = turns.at(-1);
  if (isBusy() || failed?.state !== "failed") return;
  const isGoingOn = open && failed.pieces.length > 0;
  if (!isGoingOn) change({ turns: turns.slice(0, -1) });
  await say(open ? "" : failed.text, isGoingOn ? "" : failed.text);
}
