// The conversation of this page. It stands outside of the page's parts, so that an answer goes on while the user looks
// elsewhere in the dashboard, say at a server.

import { call, get, takeTurn, transcript } from "./api.js";
import { asked, chosenFor, EVERYTHING, remember } from "./choice.js";
import { signal } from "./html.js";
import { begun, broken, told, turnsOf } from "./turn.js";
import { questions } from "./world.js";

/** @typedef {import("./turn.js").Turn} Turn */

/**
 * @typedef {object} Talk
 * @property {string | null} session null until something of it is kept
 * @property {string | null} title
 * @property {Turn[]} turns
 * @property {"idle" | "loading" | "running" | "stopping"} state
 * @property {boolean} open whether the last turn was interrupted and can be gone on with
 * @property {string} turn what the daemon calls the last turn by, when it is asked to cancel it
 * @property {string[]} before the questions that waited already when the last turn began: they are not of it
 * @property {unknown} error why it could not be fetched
 */

/** @type {Talk} */
const NEW = { session: null, title: null, turns: [], state: "idle", open: false, turn: "", before: [], error: null };

export const talk = signal(NEW);

/** What is being written, kept when the user looks elsewhere. */
export const draft = signal("");

/** Who answers, and with which tools. */
export const choice = signal(EVERYTHING);

/** Chooses for this conversation. @param {Partial<import("./choice.js").Choice>} chosen */
export function choose(chosen) {
  choice.value = { ...choice.peek(), ...chosen };
  const { session } = talk.peek();
  if (session) remember(session, choice.peek());
}

/** Text comes in small pieces: they are shown together, this much later at most. In ms. */
const GATHER = 40;

/** How long a turn has to end by itself once it was told to stop; then the connection is closed. In ms. */
const GRACE = 4000;

/** What is under way: an answer, or a conversation being fetched. */
let going = new AbortController();
let turnId = "";
let count = 0;

/** @param {Partial<Talk>} change */
const change = (change) => {
  talk.value = { ...talk.peek(), ...change };
};

/** @param {Turn} turn the last one, as it is now */
const changeLast = (turn) => change({ turns: talk.peek().turns.with(-1, turn) });

const path = (/** @type {string} */ session) => `/api/v1/sessions/${encodeURIComponent(session)}`;

export const isBusy = () => ["running", "stopping"].includes(talk.peek().state);

/** Begins a conversation. An answer that is under way is cancelled. */
export function begin() {
  going.abort();
  talk.value = NEW;
  choice.value = EVERYTHING;
}

/** Fetches a conversation that was kept, to go on with it. @param {string} session */
export async function resume(session) {
  going.abort();
  const mine = new AbortController();
  going = mine;
  talk.value = { ...NEW, session, state: "loading" };
  choice.value = chosenFor(session);
  try {
    const { session: about, messages } = await transcript(path(session), mine.signal);
    if (!mine.signal.aborted)
      change({ title: about.title, turns: turnsOf(messages), open: about.open_turn, state: "idle" });
  } catch (error) {
    if (!mine.signal.aborted) change({ error, state: "idle" });
  }
}

/**
 * Asks, and shows what comes.
 * @param {string} text empty to go on with a turn that was interrupted
 * @param {string} [shown] what stands as the question, if that was kept already and is not sent again
 */
export async function say(text, shown = text) {
  const mine = new AbortController();
  going = mine;
  turnId = crypto.randomUUID();
  count += 1;
  const before = questions.peek().map(({ id }) => id);
  let turn = begun(`turn-${count}`, shown);
  change({ turns: [...talk.peek().turns, turn], state: "running", open: false, turn: turnId, before, error: null });
  let timer = 0;
  const show = () => {
    clearTimeout(timer);
    timer = 0;
    if (!mine.signal.aborted) changeLast(turn);
  };
  const onEvent = (/** @type {string} */ event, /** @type {any} */ data) => {
    if (mine.signal.aborted) return;
    if (event === "session") {
      remember(data.id, choice.peek());
      return change({ session: data.id, title: data.title ?? talk.peek().title });
    }
    turn = told(turn, event, data, Date.now());
    if (event === "text" || event === "thinking") timer ||= setTimeout(show, GATHER);
    else show();
  };
  try {
    const request = { session: talk.peek().session, text, id: turnId, ...asked(choice.peek()) };
    await takeTurn(request, onEvent, mine.signal);
  } catch (error) {
    turn = broken(turn, error);
  }
  if (mine.signal.aborted) return;
  show();
  const { end } = turn;
  change({ state: "idle", session: end?.session ?? talk.peek().session });
  if (end?.end !== "answered") await lookWhetherOpen(mine.signal);
}

/** Whether an interrupted turn can be gone on with. @param {AbortSignal} signal */
async function lookWhetherOpen(signal) {
  const { session } = talk.peek();
  if (!session) return;
  const found = await get(`${path(session)}?limit=1`, signal).catch(() => null);
  if (found && !signal.aborted && talk.peek().state === "idle") change({ open: found.session.open_turn });
}

/** Stops the answer. What was said so far stays. */
export async function stop() {
  const mine = going;
  if (talk.peek().state !== "running") return;
  change({ state: "stopping" });
  const giveUp = () => {
    if (mine.signal.aborted || going !== mine || !isBusy()) return;
    mine.abort();
    const last = talk.peek().turns.at(-1);
    if (last)
      changeLast({
        ...broken(last, null),
        state: "over",
        end: { session: talk.peek().session, end: "cancelled" },
      });
    change({ state: "idle" });
  };
  setTimeout(giveUp, GRACE);
  await call(`/api/v1/turns/${encodeURIComponent(turnId)}`, { method: "DELETE" }).catch(giveUp);
}

/** Asks again what failed. What the daemon kept of it is not asked a second time: that turn is gone on with. */
export async function again() {
  await lookWhetherOpen(going.signal);
  const { turns, open } = talk.peek();
  const failed = turns.at(-1);
  if (isBusy() || failed?.state !== "failed") return;
  const isGoingOn = open && failed.pieces.length > 0;
  if (!isGoingOn) change({ turns: turns.slice(0, -1) });
  await say(open ? "" : failed.text, isGoingOn ? "" : failed.text);
}
