// One stream of events for all pages of a browser, which opens six connections to a daemon at most, for all of them together:
// if each page kept one for its stream, the sixth would leave none to ask anything with.
//
// The page that has the lock listens, and tells the others. The lock of a page that is closed goes to the next one. Only the
// events are passed on, to pages of this address: each page has the token for itself, as ever.

import { pathOf } from "./agent.js";
import { Refusal } from "./api.js";
import { listen, pause } from "./events.js";
import { LOG_LENGTH } from "./merge.js";

/** @typedef {import("./events.js").State} State */

/**
 * How the stream of the page that listens is.
 * @typedef {{state: State, tries: number, refusal: {status: number, code: string, message: string, hint: string | null} | null}} How
 */

/**
 * What pages tell each other. `hello` asks the one that listens for all since an event, which it answers with `past`; `here` says
 * how its stream is; `wake` asks it to try again at once.
 * @typedef {({kind: "hello", last: string | null} | {kind: "past", to: string, events: Api.LiveEvent[], how: How} | {kind: "here", how: How} | {kind: "event", event: Api.LiveEvent} | {kind: "wake"}) & {from: string}} Said
 */

/** Whether pages of this browser can agree with each other: only pages of this machine, or of https, can. */
const canAgree = () => Boolean(globalThis.navigator?.locks && globalThis.BroadcastChannel);

/**
 * Listens until the signal is aborted, together with the other pages of this browser.
 * @param {import("./events.js").Listener} listener
 * @param {AbortSignal} signal
 */
export function listenTogether(listener, signal) {
  if (canAgree()) new Page(listener, signal).start();
  else listen(listener, signal);
}

/** This page among the others. */
class Page {
  #me = crypto.randomUUID();
  #name = `toolrack.events ${pathOf("/api/v1/events")}`;
  #channel = new BroadcastChannel(this.#name);
  /** @type {Api.LiveEvent[]} */
  #kept = [];
  /** @type {How} */
  #how = { state: "connecting", tries: 0, refusal: null };
  #isLeading = false;
  /** The page that listens, once it has told what was before. @type {string | null} */
  #leader = null;
  #timer = 0;

  /** @param {import("./events.js").Listener} listener @param {AbortSignal} signal */
  constructor(listener, signal) {
    this.listener = listener;
    this.signal = signal;
  }

  start() {
    const { signal } = this;
    this.#channel.addEventListener("message", ({ data }) => this.#heard(data), { signal });
    signal.addEventListener("abort", () => {
      clearTimeout(this.#timer);
      this.#channel.close();
    });
    this.listener.onState("connecting", null);
    this.#say({ kind: "hello", last: null });
    const wake = () => this.#isLeading || this.#how.state === "live" || this.#say({ kind: "wake" });
    addEventListener("focus", wake, { signal });
    navigator.locks.request(this.#name, { signal }, () => this.#lead()).catch(() => {});
  }

  /** @param {import("./shared.js").Said extends infer S ? S extends {from: string} ? Omit<S, "from"> : never : never} said */
  #say(said) {
    if (!this.signal.aborted) this.#channel.postMessage({ ...said, from: this.#me });
  }

  /** Listens, until this page ends or is let in no more. */
  async #lead() {
    if (this.signal.aborted) return;
    clearTimeout(this.#timer);
    this.#isLeading = true;
    const last = this.#kept.at(-1)?.id ?? "0";
    const onEvent = (/** @type {Api.LiveEvent} */ event) => {
      this.#take(event);
      this.#say({ kind: "event", event });
    };
    /** @type {import("./events.js").Listener["onState"]} */
    const onState = (state, refusal) => {
      const tries = state === "live" || state === "connecting" ? 0 : this.#how.tries + 1;
      const why = refusal && { status: refusal.status, code: refusal.code, message: refusal.message, hint: refusal.hint };
      this.#how = { state, tries, refusal: why };
      this.listener.onState(state, refusal);
      this.#say({ kind: "here", how: this.#how });
    };
    try {
      await listen({ onEvent, onState }, this.signal, { last, isOnlyOne: true });
    } finally {
      this.#isLeading = false;
    }
  }

  /** @param {Api.LiveEvent} event */
  #take(event) {
    this.#kept.push(event);
    if (this.#kept.length > LOG_LENGTH) this.#kept.shift();
    this.listener.onEvent(event);
  }

  /** @param {Said} said */
  #heard(said) {
    if (this.#isLeading) {
      if (said.kind === "hello") this.#tellPast(said);
      // Who sleeps between two tries wakes up.
      if (said.kind === "wake") dispatchEvent(new Event("toolrack-wake"));
      return;
    }
    if (said.kind === "past" && said.to === this.#me) {
      this.#leader = said.from;
      for (const event of said.events) this.#take(event);
      this.#follow(said.how);
    }
    if (said.kind === "event" && said.from === this.#leader) this.#take(said.event);
    if (said.kind !== "here") return;
    if (said.from === this.#leader) this.#follow(said.how);
    // Another page listens by now: it may have seen more.
    else this.#say({ kind: "hello", last: this.#kept.at(-1)?.id ?? null });
  }

  /** @param {Extract<Said, {kind: "hello"}>} said */
  #tellPast({ from, last }) {
    const seen = last === null ? -1 : this.#kept.findLastIndex(({ id }) => id === last);
    this.#say({ kind: "past", to: from, events: this.#kept.slice(seen + 1), how: this.#how });
  }

  /** @param {How} how */
  #follow(how) {
    this.#how = how;
    const { refusal } = how;
    this.listener.onState(how.state, refusal && new Refusal(refusal.status, refusal));
    clearTimeout(this.#timer);
    // The clock of a page that is not seen is slow: one that is seen counts for it.
    if (how.state === "lost" && !document.hidden)
      this.#timer = setTimeout(() => this.#say({ kind: "wake" }), pause(how.tries));
  }
}
